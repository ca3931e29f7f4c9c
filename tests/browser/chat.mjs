// Tests the chat of the matchday console in a browser: two fans exchange messages through the homeserver.
//   node chat.mjs URL HOMESERVER FOLDER
// URL is a local stack that uses the homeserver at HOMESERVER. Screenshots go into FOLDER.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [url, homeserver, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const errors = [];

/** Logs in as a new fan with a new username. */
async function visit(phone, username) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: "en-GB" });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("console", (message) => { if (message.type() === "error") errors.push(message.text()); });
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith(homeserver)) errors.push(request.url());
  });
  await page.goto(url);
  await page.getByLabel("Phone number").fill(phone);
  await page.getByRole("button", { name: "Send me a code" }).click();
  await page.locator("#inbox li", { hasText: phone }).getByRole("button").click();
  await page.getByLabel("Username").fill(username);
  await page.getByRole("button", { name: "Save username" }).click();
  await page.locator(".match").first().waitFor();
  return page;
}

/** Joins the room of the match with this address. */
async function joinRoom(page, match) {
  await page.goto(`${url}/${match}`);
  await page.getByRole("button", { name: "Join the room of this match" }).click();
  await page.getByRole("region", { name: "Messages" }).waitFor();
}

async function send(page, text) {
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

const seen = (page, text) => page.locator(".messages").getByText(text).waitFor();

try {
  const ada = await visit("+447700900801", "ada_lines");
  // The first match may start during the test, so use the second.
  const match = await ada.locator(".match").nth(1).getAttribute("href");
  await joinRoom(ada, match);
  await send(ada, "Who else is nervous?");
  await seen(ada, "Who else is nervous?");
  const bo = await visit("+447700900802", "bo_post");
  await joinRoom(bo, match);
  console.log("  a fan sees the messages before the join");
  await seen(bo, "Who else is nervous?");
  console.log("  messages arrive in both directions, without a reload");
  await send(bo, "Two nil, mark my words.");
  await seen(ada, "Two nil, mark my words.");
  assert.match(await ada.locator(".messages li").last().textContent(), /^bo_post · \d\d:\d\dTwo nil, mark my words\.$/);
  await ada.screenshot({ path: join(folder, "chat.png") });
  console.log("  messages are still there after a reload");
  await ada.reload();
  await seen(ada, "Two nil, mark my words.");
  assert.deepEqual(errors, []);
} finally {
  await browser.close();
}
