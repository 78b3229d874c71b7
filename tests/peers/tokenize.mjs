// Tokenises lines with llama.cpp, once with the spelling of control tokens as text and once as control tokens.
// Usage: node tokenize.mjs MODEL.gguf LINES.json OUT.json
// LINES.json is an array of strings; OUT.json becomes {"as_text": [[id, …], …], "as_tokens": [[id, …], …]}.
import {readFileSync, writeFileSync} from "node:fs";
import {getLlama} from "node-llama-cpp";

const [modelPath, linesPath, outPath] = process.argv.slice(2);
const llama = await getLlama({gpu: false, build: "never"});
const model = await llama.loadModel({modelPath, vocabOnly: true});
const lines = JSON.parse(readFileSync(linesPath, "utf8"));
const tokenize = (specials) => lines.map((line) => Array.from(model.tokenize(line, specials), Number));
writeFileSync(outPath, JSON.stringify({as_text: tokenize(false), as_tokens: tokenize(true)}));
process.exit(0);
