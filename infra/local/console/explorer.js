"use strict";
// Uses the console's login for the requests of the explorer.
addEventListener("load", () => {
  const explorer = SwaggerUIBundle({
    url: "/api/openapi.json",
    dom_id: "#explorer",
    deepLinking: true,
    displayRequestDuration: true,
    persistAuthorization: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    onComplete: () => {
      const token = sessionStorage.getItem("token");
      if (token) explorer.preauthorizeApiKey("token", token);
    },
  });
});
