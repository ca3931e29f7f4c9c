// Logs in and predicts with a client that is generated from the OpenAPI document, as an app would.
import createClient from "openapi-fetch";
import type { paths } from "./generated/api";

const baseUrl = process.argv[2];
const api = createClient<paths>({ baseUrl });

const phone = "+447700900321";
await api.POST("/api/code/request", { body: { phone } });
const { data: log } = await api.GET("/api/logs/sms", { params: { query: { phone, per_page: 1 } } });
const code = log?.data[0]?.code ?? "";
const { data: login, error: loginError } = await api.POST("/api/code/verify", { body: { phone, code } });
if (!login) throw new Error(loginError.message);
api.use({
  onRequest({ request }) {
    request.headers.set("Authorization", `Bearer ${login.data.token}`);
    return request;
  },
});

// The first match may start during the test, so use the second.
const { data: matches } = await api.GET("/api/auth/events", { params: { query: { status: "scheduled", per_page: 2 } } });
const match = matches?.data[1];
if (!match) throw new Error("There is no scheduled match to predict.");
const { data: created, error, response } = await api.POST("/api/auth/predictions", {
  body: { event_id: match.id, prediction: "home", score_prediction: { home: 2, away: 1 }, confidence: 80 },
});
if (!created) throw new Error(`${error.code}: ${error.message}`);
const { prediction, score_prediction: score, confidence } = created.data;
if (response.status !== 201 || prediction !== "home" || score?.home !== 2 || confidence !== 80) {
  throw new Error(JSON.stringify(created));
}
console.log(`${login.data.user.username} predicts ${match.home_team.name} 2:1 ${match.away_team.name}, ${confidence} % confident`);
