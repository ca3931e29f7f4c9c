// The same handler as `meta`'s health, with the AWS SDK, on a runtime loop of a few lines: Lambda's own does no less.
import { DynamoDBClient, GetItemCommand } from "@aws-sdk/client-dynamodb";

const client = new DynamoDBClient({ region: process.env.AWS_REGION, endpoint: process.env.AWS_ENDPOINT_URL_DYNAMODB });
const nothing = { TableName: process.env.USERS_TABLE, Key: { pk: { S: "nothing" }, sk: { S: "nothing" } } };
const runtime = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation`;

await client.send(new GetItemCommand(nothing));
for (;;) {
  const next = await fetch(`${runtime}/next`);
  await next.json();
  await client.send(new GetItemCommand(nothing));
  const body = JSON.stringify({ data: { status: "ok", version: "0.1.0" } });
  const id = next.headers.get("lambda-runtime-aws-request-id");
  await fetch(`${runtime}/${id}/response`, { method: "POST", body: JSON.stringify({ statusCode: 200, body }) });
}
