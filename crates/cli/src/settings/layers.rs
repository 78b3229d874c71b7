//! All that was given, by precedence: flags, variables, file, LMCache's variables, defaults.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use super::{
    environment::Environment,
    file,
    origin::{Misconfigured, Origin},
    table::{Fallback, SETTINGS, Setting, setting},
};

/// Variables that others set: Kubernetes for a service called medley, and the tests.
const OTHERS: [&str; 3] = ["MEDLEY_SERVICE_", "MEDLEY_PORT_", "MEDLEY_TEST_"];

/// The texts given for a setting, at least one, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The texts; one unless the setting may be repeated.
    pub texts: Vec<String>,
    /// Where they were given.
    pub origin: Origin,
}

/// Everything that was given.
#[derive(Debug)]
pub struct Layers {
    flags: BTreeMap<&'static str, Vec<String>>,
    environment: Environment,
    file: Option<(PathBuf, BTreeMap<&'static str, Vec<String>>)>,
}

impl Layers {
    /// Collects the layers; reads the configuration file that `--config` or `MEDLEY_CONFIG` names.
    pub fn new(
        flags: BTreeMap<&'static str, Vec<String>>,
        config: Option<String>,
        environment: Environment,
    ) -> Result<Self, Misconfigured> {
        let path = config
            .or_else(|| environment.get("MEDLEY_CONFIG").map(str::to_owned))
            .map(PathBuf::from);
        let file = path
            .map(|path| file::read(&path).map(|keys| (path, keys)))
            .transpose()?;
        Ok(Self {
            flags,
            environment,
            file,
        })
    }

    /// The environment, for variables that are no settings.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// What was given for a setting; its default text last.
    pub fn given(&self, name: &str) -> Option<Given> {
        let setting = setting(name);
        self.flag(setting)
            .or_else(|| self.variable(setting))
            .or_else(|| self.key(setting))
            .or_else(|| self.lmcache(setting))
            .or_else(|| default(setting))
    }

    /// Whether LMCache's variables give a setting, whatever else does.
    pub fn inherits(&self, name: &str) -> bool {
        self.lmcache(setting(name)).is_some()
    }

    /// Variables that look like settings and are none.
    pub fn unknown_variables(&self) -> Vec<&str> {
        let known = |name: &str| {
            name == "MEDLEY_CONFIG"
                || SETTINGS.iter().any(|s| s.variable() == name)
                || OTHERS.iter().any(|prefix| name.starts_with(prefix))
        };
        let ours = self.environment.names().filter(|n| n.starts_with("MEDLEY_"));
        ours.filter(|name| !known(name)).collect()
    }

    /// The value of a setting, parsed; `None` if nothing was given and the default is no text. What `parse` says of a
    /// wrong text continues a sentence that begins with the text: `is not a number`.
    pub fn optional<T, E: fmt::Display>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Misconfigured> {
        let Some(given) = self.given(name) else {
            return Ok(None);
        };
        let text = given.texts.last().map_or("", String::as_str);
        let fail = |e: E| Misconfigured::new(&given.origin, format!("`{text}` {e}{}", hint(&given)));
        parse(text).map(Some).map_err(fail)
    }

    /// The value of a setting that has a default text.
    pub fn required<T, E: fmt::Display>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<T, Misconfigured> {
        let missing = || Misconfigured::new(&Origin::Flag(setting(name).name), "must be given");
        self.optional(name, parse)?.ok_or_else(missing)
    }

    fn flag(&self, setting: &'static Setting) -> Option<Given> {
        let texts = self.flags.get(setting.name)?.clone();
        Some(Given {
            texts,
            origin: Origin::Flag(setting.name),
        })
    }

    fn variable(&self, setting: &Setting) -> Option<Given> {
        let name = setting.variable();
        let text = self.environment.get(&name)?;
        let texts = if setting.many {
            text.split(',').map(|part| part.trim().to_owned()).collect()
        } else {
            vec![text.to_owned()]
        };
        Some(Given {
            texts,
            origin: Origin::Variable(name),
        })
    }

    fn key(&self, setting: &Setting) -> Option<Given> {
        let (path, keys) = self.file.as_ref()?;
        let texts = keys.get(setting.name)?.clone();
        Some(Given {
            texts,
            origin: Origin::File(path.clone(), setting.name.to_owned()),
        })
    }

    /// The variables by which LMCache is configured. `LMCACHE_ENABLE_BLENDING` set to false silences them; set to
    /// true it brings LMCache's own separator. Where LMCache takes a list, one value a check layer, the first holds.
    fn lmcache(&self, setting: &Setting) -> Option<Given> {
        let enabled = self
            .environment
            .get("LMCACHE_ENABLE_BLENDING")
            .map(|v| v.eq_ignore_ascii_case("true") || v == "1");
        if enabled == Some(false) {
            return None;
        }
        let (name, list) = match setting.name {
            "blend-separator" => ("LMCACHE_BLEND_SPECIAL_STR", false),
            "blend-ratio" => ("LMCACHE_BLEND_RECOMPUTE_RATIOS", true),
            "blend-check-layer" => ("LMCACHE_BLEND_CHECK_LAYERS", true),
            _ => return None,
        };
        let text = self
            .environment
            .get(name)
            .map(|v| if list { first_of(v) } else { v });
        let (text, name) = match text {
            Some(text) => (text, name),
            None if setting.name == "blend-separator" && enabled == Some(true) => {
                (" # # ", "LMCACHE_ENABLE_BLENDING")
            }
            None => return None,
        };
        Some(Given {
            texts: vec![text.to_owned()],
            origin: Origin::Variable(name.to_owned()),
        })
    }
}

fn first_of(list: &str) -> &str {
    let list = list.trim().trim_start_matches('[').trim_end_matches(']');
    list.split(',').next().unwrap_or(list).trim()
}

fn default(setting: &Setting) -> Option<Given> {
    match setting.fallback {
        Fallback::Text(text) => Some(Given {
            texts: vec![text.to_owned()],
            origin: Origin::Default(setting.name),
        }),
        Fallback::Described(_) => None,
    }
}

/// Container platforms set `NAME_PORT=tcp://…` for every service, one called medley included.
fn hint(given: &Given) -> &'static str {
    let service = matches!(&given.origin, Origin::Variable(name) if name == "MEDLEY_PORT")
        && given.texts.iter().any(|t| t.starts_with("tcp://"));
    if service {
        " (Kubernetes sets this variable for a service called medley: set enableServiceLinks: false)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(flags: &[(&'static str, &str)], env: Environment) -> Layers {
        let flags = flags
            .iter()
            .map(|(name, text)| (*name, vec![(*text).to_owned()]))
            .collect();
        Layers::new(flags, None, env).expect("no file to read")
    }

    fn text_of(layers: &Layers, name: &str) -> Option<String> {
        layers.given(name).map(|g| g.texts.join("|"))
    }

    #[test]
    fn flags_go_before_variables_and_variables_before_the_default() {
        let env = Environment::from([("MEDLEY_PORT", "2"), ("MEDLEY_HOST", "::1")]);
        let layers = layers(&[("port", "1")], env);
        assert_eq!(text_of(&layers, "port").as_deref(), Some("1"));
        assert_eq!(text_of(&layers, "host").as_deref(), Some("::1"));
        assert_eq!(text_of(&layers, "blend-ratio").as_deref(), Some("0.15"));
        assert_eq!(text_of(&layers, "model"), None);
    }

    #[test]
    fn a_variable_lists_names_with_commas_and_an_empty_one_is_unset() {
        let env = Environment::from([("MEDLEY_SERVED_MODEL_NAME", "a, b/c"), ("MEDLEY_PORT", "")]);
        let layers = layers(&[], env);
        assert_eq!(text_of(&layers, "served-model-name").as_deref(), Some("a|b/c"));
        assert_eq!(text_of(&layers, "port").as_deref(), Some("8080"));
    }

    #[test]
    fn variables_that_no_setting_has_are_found() {
        let env = Environment::from([
            ("MEDLEY_PROT", "1"),
            ("MEDLEY_PORT", "1"),
            ("MEDLEY_CONFIG", ""),
            ("MEDLEY_SERVICE_HOST", "10.0.0.1"),
            ("MEDLEY_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("HOME", "/h"),
        ]);
        assert_eq!(layers(&[], env).unknown_variables(), ["MEDLEY_PROT"]);
    }

    #[test]
    fn lmcache_variables_are_the_last_before_the_defaults() {
        let env = [
            ("LMCACHE_BLEND_SPECIAL_STR", " ## "),
            ("LMCACHE_BLEND_RECOMPUTE_RATIOS", "[0.2, 0.1]"),
        ];
        let with = layers(&[], Environment::from(env));
        assert_eq!(text_of(&with, "blend-separator").as_deref(), Some(" ## "));
        assert_eq!(text_of(&with, "blend-ratio").as_deref(), Some("0.2"));
        let flagged = layers(&[("blend-ratio", "0.3")], Environment::from(env));
        assert_eq!(text_of(&flagged, "blend-ratio").as_deref(), Some("0.3"));
    }

    #[test]
    fn lmcache_blending_switched_off_silences_its_variables_and_on_brings_its_separator() {
        let off = Environment::from([
            ("LMCACHE_ENABLE_BLENDING", "False"),
            ("LMCACHE_BLEND_CHECK_LAYERS", "3"),
        ]);
        assert_eq!(
            text_of(&layers(&[], off), "blend-check-layer").as_deref(),
            Some("1")
        );
        let on = Environment::from([("LMCACHE_ENABLE_BLENDING", "True")]);
        assert_eq!(
            text_of(&layers(&[], on), "blend-separator").as_deref(),
            Some(" # # ")
        );
    }

    #[test]
    fn an_error_names_where_the_value_was_given() {
        let parse = |text: &str| text.parse::<u16>();
        let by_flag = layers(&[("port", "x")], Environment::default());
        let message = by_flag
            .required("port", parse)
            .expect_err("x is no port")
            .to_string();
        assert!(message.starts_with("--port: `x` "), "{message}");
        let by_service = layers(&[], Environment::from([("MEDLEY_PORT", "tcp://10.0.0.1:80")]));
        let message = by_service
            .required("port", parse)
            .expect_err("no port")
            .to_string();
        assert!(
            message.starts_with("MEDLEY_PORT: ") && message.contains("enableServiceLinks"),
            "{message}"
        );
    }
}
