// A client generated from the description logs in and predicts: whoever writes an app can do the same.
import createClient from "openapi-fetch";
import type { paths } from "./generated/api";

const baseUrl = process.argv[2];
const api = createClient<paths>({ baseUrl });

const phone = "+447700900321";
await api.POST("/api/code/request", { body: { phone } });
const { data: log } = await api.GET("/api/logs/sms", { params: { query: { phone, per_page: 1 } } });
const code = log?.data[0]?.code ?? "";
const { data: login, error: refused } = await api.POST("/api/code/verify", { body: { phone, code } });
if (!login) throw new Error(refused.message);
api.use({
  onRequest({ request }) {
    request.headers.set("Authorization", `Bearer ${login.data.token}`);
    return request;
  },
});

const { data: matches } = await api.GET("/api/auth/events", { params: { query: { status: "scheduled", per_page: 1 } } });
const match = matches?.data[0];
if (!match) throw new Error("no match to predict");
const { data: made, error, response } = await api.POST("/api/auth/predictions", {
  body: { event_id: match.id, prediction: "home", score_prediction: { home: 2, away: 1 }, confidence: 80 },
});
if (!made) throw new Error(`${error.code}: ${error.message}`);
const { prediction, score_prediction: score, confidence } = made.data;
if (response.status !== 201 || prediction !== "home" || score?.home !== 2 || confidence !== 80) {
  throw new Error(JSON.stringify(made));
}
console.log(`${login.data.user.username} says ${match.home_team.name} 2:1 ${match.away_team.name}, ${confidence} % sure`);
