"use strict";
// Whoever is logged in on the console's page is logged in here, and stays so.
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
