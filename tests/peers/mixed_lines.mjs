// Writes 2,000 lines of mixed text as a JSON array of strings, the same ones every time.
// Usage: node mixed_lines.mjs OUT.json
//
// A line joins one to eight fragments of the kinds below, so that every kind meets every other at a border:
// that is where tokenizers differ.
import {writeFileSync} from "node:fs";

const LINES = 2000;

// Park and Miller's generator: its products stay below 2^53, so plain numbers hold them exactly.
let state = 20240611;
const below = (n) => (state = (state * 48271) % 2147483647) % n;
const pick = (list) => list[below(list.length)];
const times = (least, most, make) => Array.from({length: least + below(most - least + 1)}, make).join("");
const character = (first, last) => String.fromCodePoint(first + below(last - first + 1));

const WORDS = "the quick brown Fox jumps OVER lazy dogs documents retrieval Straße naïve façade coöperate résumé iPhone McDonald HTTPServer snake_case kebab-case x1 v2.0 3rd 42nd".split(" ");
const CONTRACTIONS = ["don't", "we'll", "I'm", "they've", "she'd", "you're", "it's", "DON'T", "WE'LL", "I'M", "THEY'VE", "it’s", "'tis", "rock'n'roll", "'S", "x'ſ", "o'clock", "''ll"];
const CODE = [
    "fn main() {\n    println!(\"{}\", x[0]);\n}", "if (a != b && c <= d) { return a->b; }", "def f(x):\n\treturn x**2  # square",
    "<div class=\"a b\">&nbsp;</div>", "SELECT * FROM t WHERE id = 7;", "let v: Vec<Option<u8>> = vec![];", "#include <stdio.h>\r\n\r\nint x;",
    "{\"a\": [1, 2.5e-10, null], \"b\": \"\\u00e9\"}", "git commit -m 'x' && git push", "https://example.org/a?b=c&d=%20#e", "$\\frac{1}{2}\\alpha$", "/* ***** */", "====", "!!!???...", "---\n\n---",
];
const SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_start|>user\n", "<repo_name>", "<file_sep>", "<gh_stars>", "<tool_call>", "</tool_call>", "<|fim_prefix|>",
    "<|vision_start|>", "<|repo_name|>", "<s>", "</s>", "<unk>", "<|begin_of_text|>", "<|eot_id|>", "<|im_start", "im_end|>", "<|<|im_end|>|>", "[INST]", "[/INST]", "[PAD151665]", "<0x0A>",
];
const EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "☃", "🤖🤖🤖", "1️⃣", "™", "©", "🧑🏿‍🚀"];
const COMBINING = ["é", "ñ", "Å", "ạ̈", "ก็", "กำ", "क्षि", "한", "ﷺ", "ﬁ", "Ǆ", "ß", "İ", "ı", "Σς", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢", "é", "가", "가"];
const SCRIPTS = ["Привет, мир", "Ελληνικά κείμενα", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "こんにちは世界", "カタカナ", "안녕하세요 세계", "გამარჯობა", "Xin chào thế giới", "Բարեւ", "ሰላም", "မင်္ဂလာပါ", "ᚠᛇᚻ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𐍈𐌰", "𠀀𠀁", "ⅣⅫ", "½ ¾ ⁵ ₂", "٣٤٥", "१२३", "㊿", "①②"];
const SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", "\u00a0", "\u2003", "\u3000", "\u200b", "\u200d", "\u2028", "\u0085", "\ufeff", "\u000b", "\u000c", "\u001c", "\u1680", "\u202f"];

const KINDS = [
    () => times(1, 5, () => pick(WORDS) + pick(["", " ", " ", " ", ", ", ". "])),
    () => pick(CONTRACTIONS),
    () => pick(CODE),
    () => pick(SPECIAL),
    () => pick(EMOJI),
    () => pick(COMBINING),
    () => pick(SCRIPTS),
    () => times(1, 8, () => pick(SPACES)),
    () => pick([" ", "\n", "\t", "\r\n", "\u00a0"]).repeat(1 + below(40)),
    () => times(1, 12, () => character(0x30, 0x39)),
    () => `${below(100)}${pick([",", ".", "/", ":", "-", "e", "%", "°"])}${below(10000)}`,
    () => times(1, 12, () => character(0x4e00, 0x9fa5)),
    () => times(1, 6, () => character(0x20, 0x7e)),
    () => times(1, 4, () => character(0x01, 0x1f)),
    () => times(1, 4, () => character(0xa1, 0x24f)),
    () => times(1, 3, () => character(0x370, 0x1fff)),
    () => times(1, 3, () => character(0x2000, 0x2bff)),
    () => times(1, 3, () => character(0xe000, 0xffff)),
    () => times(1, 2, () => character(0x10000, 0x1faff)),
    () => pick(["a", "ab", "\\", "=", "-", "ha", "0", "."]).repeat(1 + below(60)),
];

const lines = Array.from({length: LINES}, () => times(1, 8, () => pick(KINDS)() + pick(["", "", " "])));
writeFileSync(process.argv[2], JSON.stringify(lines));
