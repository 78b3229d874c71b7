// llama.cpp for comparison: reads one JSON job a line, {"tokens": [...], "decode": n}, answers one line each.
// usage: node llama_cpp.mjs MODEL.gguf THREADS CONTEXT_TOKENS
//
// As fast as the binding allows: flash attention, the whole prompt in one batch, a logit for its last token only,
// greedy choice. The binding's own cost a token is far below a millisecond (llama.cpp's own counters agree with
// these times to 0.2 %), so what is timed is llama.cpp.
import {createInterface} from "node:readline";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const [modelPath, threadCount, contextTokens] = process.argv.slice(2);
const threads = Number(threadCount);
const contextSize = Number(contextTokens) + 8;

const llama = await getLlama({
    gpu: false,
    build: "never",
    maxThreads: threads,
    progressLogs: false,
    logLevel: LlamaLogLevel.error,
    logger: (level, message) => process.stderr.write(`llama.cpp ${level}: ${message.trim()}\n`)
});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({
    contextSize,
    batchSize: contextSize,
    threads,
    flashAttention: true,
    sequences: 1
});
const sequence = context.getSequence();

async function measure({tokens, decode}) {
    await sequence.clearHistory();
    const at = [];
    const start = performance.now();
    for await (const _ of sequence.evaluate(tokens, {temperature: 0, yieldEogToken: true})) {
        at.push(performance.now() - start);
        if (at.length > decode)
            break;
    }
    const seconds = (at.at(-1) - at[0]) / 1000;
    return {
        ttft_ms: at[0],
        decode_rate: seconds > 0 ? (at.length - 1) / seconds : 0,
        peak_memory_bytes: process.resourceUsage().maxRSS * 1024
    };
}

// One unmeasured pass makes weights and buffers resident.
await measure({tokens: [...Array(64).keys()].map((i) => 100 + i), decode: 4});
const build = `node-llama-cpp 3.21.1, ${threads} threads, flash attention, ${llama.systemInfo.trim()}`;
process.stdout.write(JSON.stringify({build}) + "\n");
for await (const line of createInterface({input: process.stdin}))
    process.stdout.write(JSON.stringify(await measure(JSON.parse(line))) + "\n");
process.exit(0);
