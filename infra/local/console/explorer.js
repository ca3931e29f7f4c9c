"use strict";
// Shows the API description with Swagger UI, and uses the console's login for its requests.

/**
 * Converts the schemas of OpenAPI 3.1 to 3.0. Swagger UI processes a whole 3.1 document when it starts, which takes seconds. It
 * processes a 3.0 document one endpoint at a time, when the user opens it.
 */
function toOpenApi30(value) {
  if (Array.isArray(value)) return value.map(toOpenApi30);
  if (value === null || typeof value !== "object") return value;
  const { type, anyOf, const: constant, examples, ...rest } = value;
  const converted = Object.fromEntries(Object.entries(rest).map(([name, part]) => [name, toOpenApi30(part)]));
  if (constant !== undefined) converted.enum = [constant];
  if (Array.isArray(type)) {
    [converted.type] = type.filter((name) => name !== "null");
    converted.nullable = type.includes("null");
  } else if (type !== undefined) {
    converted.type = toOpenApi30(type);
  }
  if (Array.isArray(anyOf)) {
    const parts = anyOf.filter((part) => part.type !== "null");
    converted[parts.length === 1 ? "allOf" : "anyOf"] = toOpenApi30(parts);
    converted.nullable = parts.length < anyOf.length;
  } else if (anyOf !== undefined) {
    converted.anyOf = toOpenApi30(anyOf);
  }
  if (Array.isArray(examples)) [converted.example] = examples;
  else if (examples !== undefined) converted.examples = toOpenApi30(examples);
  return converted;
}

/** Loads the description while the browser loads Swagger UI. */
const loading = fetch("/api/openapi.json").then((response) => response.json());

async function show() {
  const description = await loading;
  const explorer = SwaggerUIBundle({
    spec: { ...toOpenApi30(description), openapi: "3.0.3" },
    dom_id: "#explorer",
    deepLinking: true,
    // Groups are drawn when they are opened: drawing all of them takes seconds.
    docExpansion: "none",
    // Each operation shows its own schemas. A list of all schemas takes long to draw.
    defaultModelsExpandDepth: -1,
    displayRequestDuration: true,
    persistAuthorization: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    onComplete: () => {
      // An app begins with the login and the user's own profile.
      for (const group of ["login", "profile"]) explorer.getSystem().layoutActions.show(["operations-tag", group], true);
      const token = sessionStorage.getItem("token");
      if (token) explorer.preauthorizeApiKey("token", token);
    },
  });
}

const showSafely = () => show().catch((error) => {
  document.querySelector("#explorer").textContent = `The API description cannot be shown: ${error.message}`;
});
if (window.SwaggerUIBundle) showSafely();
else addEventListener("DOMContentLoaded", showSafely);
