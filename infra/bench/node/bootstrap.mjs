// A minimal Node runtime for Lambda: fetches an event, calls the handler, posts its response.
import { handler } from "./health.mjs";

const invocation = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation`;

for (;;) {
  const next = await fetch(`${invocation}/next`);
  const id = next.headers.get("lambda-runtime-aws-request-id");
  const response = await handler(await next.json());
  await fetch(`${invocation}/${id}/response`, { method: "POST", body: JSON.stringify(response) });
}
