"use strict";
// Uses the console's login for the requests of the explorer.
addEventListener("DOMContentLoaded", () => {
  const explorer = SwaggerUIBundle({
    url: "/api/openapi.json",
    dom_id: "#explorer",
    deepLinking: true,
    // A group is drawn when it is opened. All of them take seconds.
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
});
