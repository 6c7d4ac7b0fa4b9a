// A worker of workerd. Each request sleeps: `?ms=` says how long. An answer is the request's body,
// read in the poll that ends the sleep.

import { answer, initSync, pending } from "./requests.js";
import module from "./requests_bg.wasm";

initSync({ module });

export default {
    async fetch(request, env, context) {
        const { pathname, searchParams } = new URL(request.url);
        const milliseconds = Number(searchParams.get("ms"));
        switch (pathname) {
            case "/pending":
                return new Response(String(pending()));
            case "/background":
                context.waitUntil(answer(milliseconds, () => fetch(searchParams.get("tell"))));
                return new Response("answered before");
            case "/crowd":
                await Promise.all(Array.from({ length: milliseconds }, () => answer(50, () => 1)));
                return new Response("more than the host takes timeouts");
            default:
                return new Response(await answer(milliseconds, () => request.text()));
        }
    },
};
