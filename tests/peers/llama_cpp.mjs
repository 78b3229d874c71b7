// Greedy text of llama.cpp with its two best probabilities at every step, for teacher-forced comparison.
//
// Usage: node llama_cpp.mjs MODEL.gguf STEPS OUT.json
// Writes {"model", "runs": [{"prompt": [ids], "steps": [{"token", "best": [[id, probability], [id, probability]]}]}]}:
// `token` is what llama.cpp took at this step (its best), and the next step continues from it.
// STEPS is the number of steps in all, shared by the prompts.
import {writeFile} from "node:fs/promises";
import {availableParallelism} from "node:os";
import {getLlama} from "node-llama-cpp";

const PROMPTS = [
    "The history of the printing press begins",
    "Question: Why is the sky blue?\nAnswer:",
    "def quicksort(values):\n",
    "Once upon a time, in a village by the sea, there lived",
];

const [modelPath, steps, out] = process.argv.slice(2);
if (out === undefined) {
    console.error("usage: node llama_cpp.mjs MODEL.gguf STEPS OUT.json");
    process.exit(2);
}

const threads = availableParallelism();
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads});
const model = await llama.loadModel({modelPath});
const perPrompt = Math.ceil(Number(steps) / PROMPTS.length);
const runs = [];
for (const prompt of PROMPTS)
    runs.push(await run(model.tokenize(prompt), perPrompt));
await writeFile(out, JSON.stringify({model: modelPath.split("/").at(-1), runs}));
process.exit(0);

async function run(prompt, count) {
    const context = await model.createContext({contextSize: 1024, batchSize: 512, threads});
    const sequence = context.getSequence();
    const steps = [];
    let input = prompt;
    while (steps.length < count) {
        const best = await twoBest(sequence, input);
        const token = best[0][0];
        steps.push({token, best});
        input = [token];
    }
    await context.dispose();
    return {prompt: [...prompt], steps};
}

// Evaluates `input` and returns the two most probable next tokens; the engine lists them in falling order.
async function twoBest(sequence, input) {
    const last = [input.at(-1), {generateNext: {probabilities: true, options: {temperature: 0}}}];
    const outputs = await sequence.controlledEvaluate([...input.slice(0, -1), last]);
    const probabilities = outputs[input.length - 1].next.probabilities.entries();
    return [probabilities.next().value, probabilities.next().value];
}
