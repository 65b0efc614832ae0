// Links to a confirmation page open it as a dialog instead. Without this script the page itself is shown.

/** Turn every `a[data-confirm]` into the opener of a dialog that holds the linked page's form. */
export function bindConfirm() {
  const dialog = /** @type {HTMLDialogElement | null} */ (document.querySelector("[data-confirm-dialog]"));
  if (!dialog) return;
  const body = /** @type {HTMLElement} */ (dialog.querySelector(".dialog-body"));
  document.addEventListener("click", async (event) => {
    if (!(event.target instanceof Element) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("[data-dialog-cancel]") && dialog.open) {
      event.preventDefault();
      dialog.close();
      return;
    }
    const link = /** @type {HTMLAnchorElement | null} */ (event.target.closest("a[data-confirm]"));
    if (!link) return;
    event.preventDefault();
    try {
      const reply = await fetch(link.href, { headers: { "X-Fragment": "dialog" }, credentials: "same-origin" });
      if (!reply.ok || reply.redirected) throw new Error(String(reply.status));
      body.innerHTML = await reply.text(); // our own server's template, escaped there; the CSP lets no script in it run
      dialog.showModal();
    } catch {
      location.assign(link.href);
    }
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}
