// Keyboard: `/` searches, `?` shows the sheet, `g` and a letter go to a page. Never while somebody types.

const PREFIX_MS = 1200;

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Bind the keys of the page. */
export function bindKeys() {
  const sheet = /** @type {HTMLDialogElement | null} */ (document.querySelector("[data-keys-dialog]"));
  const opener = /** @type {HTMLButtonElement | null} */ (document.querySelector("[data-keys-open]"));
  let prefixUntil = 0;
  if (sheet && opener) {
    opener.hidden = false;
    opener.addEventListener("click", () => sheet.showModal());
  }
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.timeStamp < prefixUntil) {
      prefixUntil = 0;
      const link = /** @type {HTMLAnchorElement | null} */ (document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`));
      if (link) {
        event.preventDefault();
        link.click();
      }
    } else if (event.key === "g") {
      prefixUntil = event.timeStamp + PREFIX_MS;
    } else if (event.key === "?" && sheet) {
      event.preventDefault();
      sheet.showModal();
    } else if (event.key === "/") {
      event.preventDefault();
      /** @type {HTMLInputElement | null} */ (document.querySelector("[data-search]"))?.select();
      /** @type {HTMLInputElement | null} */ (document.querySelector("[data-search]"))?.focus();
    }
  });
}
