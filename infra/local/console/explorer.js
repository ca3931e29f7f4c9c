"use strict";
// Uses the console's login for the requests of the explorer.
addEventListener("DOMContentLoaded", () => {
  const explorer = SwaggerUIBundle({
    url: "/api/openapi.json",
    dom_id: "#explorer",
    deepLinking: true,
    // Each operation shows its own schemas. A list of all schemas takes long to draw.
    defaultModelsExpandDepth: -1,
    displayRequestDuration: true,
    persistAuthorization: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    onComplete: () => {
      // The endpoints that the homeserver calls are not for apps.
      explorer.getSystem().layoutActions.show(["operations-tag", "homeserver"], false);
      const token = sessionStorage.getItem("token");
      if (token) explorer.preauthorizeApiKey("token", token);
    },
  });
});
