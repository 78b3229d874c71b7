"""The alert rules that Prometheus is given."""

import pathlib
import re

import pytest
import yaml

FILE = pathlib.Path(__file__).parents[2] / "deploy/prometheus/medley-alerts.yml"
RULES = [rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]]


def test_no_alert_is_there_twice():
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names) >= 2


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_is_one_that_prometheus_can_read(rule):
    assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"[A-Za-z_]\w*", rule["alert"])
    assert re.fullmatch(r"\d+[smhd]", rule["for"])
    assert rule["labels"].keys() == {"severity"}
    assert rule["annotations"].keys() == {"summary", "description"}
    assert all(isinstance(text, str) and text for text in [rule["expr"], *rule["annotations"].values()])
    for left, right in ("()", "[]", "{}"):
        assert rule["expr"].count(left) == rule["expr"].count(right)
    assert re.search(r"[<>] *[\d.]+$", rule["expr"]), "it compares with a threshold"
