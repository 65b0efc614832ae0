// htmx polls the moving part of a page; this keeps it civil: no requests while the tab is hidden or a dialog is open,
// and after an error it says so instead of showing old numbers as new ones.

document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden || document.querySelector("dialog[open]")) event.preventDefault();
});

// When the session has ended the answer is the login page: it must not appear inside ours.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { detail } = /** @type {any} */ (event);
  if (new URL(detail.xhr.responseURL, location.href).pathname.startsWith("/login/")) {
    detail.shouldSwap = false;
    location.reload();
  }
});

let failures = 0;
document.addEventListener("htmx:afterRequest", (event) => {
  const { successful } = /** @type {any} */ (event).detail;
  failures = successful ? 0 : failures + 1;
  const box = document.querySelector("[data-poll]");
  let note = document.querySelector("[data-poll-note]");
  if (failures < 3) {
    note?.remove();
  } else if (!note && box) {
    note = document.createElement("p");
    note.setAttribute("data-poll-note", "");
    note.setAttribute("role", "alert");
    note.className = "note";
    /** @type {HTMLElement} */ (note).dataset.tone = "warn";
    note.textContent = "No answer from the server: what you see below may be old. It is tried again each second.";
    box.before(note);
  }
});
