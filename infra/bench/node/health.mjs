// The health endpoint of functions/meta in Node. It opens the connection during init and reads once per request.
import { DynamoDBClient, GetItemCommand } from "@aws-sdk/client-dynamodb";

const client = new DynamoDBClient({});
const missingItem = { TableName: process.env.USERS_TABLE, Key: { pk: { S: "-" }, sk: { S: "-" } } };
await client.send(new GetItemCommand(missingItem));

export async function handler() {
  await client.send(new GetItemCommand(missingItem));
  return {
    statusCode: 200,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ data: { status: "ok", version: "0.1.0" } }),
    isBase64Encoded: false,
  };
}
