// The API's page: Swagger UI, a plain script of the page, reads our schema and tries requests out with the session.

const box = document.getElementById("swagger-ui");
const token = document.querySelector('meta[name="csrf-token"]')?.getAttribute("content") ?? "";

/** @type {any} */ (globalThis).SwaggerUIBundle({
  url: box?.dataset.schemaUrl,
  dom_id: "#swagger-ui",
  layout: "BaseLayout",
  deepLinking: true,
  docExpansion: "list",
  validatorUrl: null, // the default asks a server on the internet about our schema
  requestInterceptor: (/** @type {any} */ request) => {
    const ours = new URL(request.url, location.href).origin === location.origin;
    if (ours && !["GET", "HEAD", undefined].includes(request.method)) request.headers[box?.dataset.csrfHeader ?? "X-CSRFToken"] = token;
    return request;
  },
});
