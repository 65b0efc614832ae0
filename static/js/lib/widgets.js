// Small helpers of forms and menus. Each works on what the page holds and does nothing where it holds nothing.

/** Filters apply as soon as a choice changes; typing waits for Enter or the button. */
export function bindFilters() {
  for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-filters]"))) {
    form.addEventListener("change", (event) => {
      if (event.target instanceof HTMLSelectElement) form.requestSubmit();
    });
    form.addEventListener("submit", () => {
      for (const field of form.querySelectorAll("input, select")) {
        if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) field.disabled = field.value === "";
      }
    });
  }
}

/** Buttons that copy the command beside them. */
export function bindCopy() {
  for (const box of document.querySelectorAll("[data-copy]")) {
    const button = box.querySelector("button");
    const label = button?.querySelector("span");
    const code = box.querySelector("code");
    if (!button || !label || !code || !navigator.clipboard) continue;
    const before = label.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent ?? "");
        label.textContent = "Copied";
      } catch {
        getSelection()?.selectAllChildren(code);
        label.textContent = "Press Ctrl+C";
      }
      setTimeout(() => (label.textContent = before), 2000);
    });
  }
}

/** Menus close on Escape and on a click elsewhere. */
export function bindMenus() {
  const menus = /** @type {HTMLDetailsElement[]} */ ([...document.querySelectorAll("details[data-menu]")]);
  document.addEventListener("click", (event) => {
    for (const menu of menus) if (menu.open && event.target instanceof Node && !menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of menus) {
      if (!menu.open) continue;
      menu.open = false;
      menu.querySelector("summary")?.focus();
    }
  });
}

/** Parts of a form that belong to one choice of a radio group are shown only with it: data-shown-with="name=value". */
export function bindShownWith() {
  const parts = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-shown-with]")]);
  if (!parts.length) return;
  const update = () => {
    for (const part of parts) {
      const [name, value] = (part.dataset.shownWith ?? "").split("=");
      const chosen = /** @type {HTMLInputElement | null} */ (document.querySelector(`input[name="${CSS.escape(name)}"]:checked`));
      part.hidden = chosen !== null && chosen.value !== value;
    }
  };
  document.addEventListener("change", update);
  update();
}

/** After a refused form the reader lands on what was wrong. */
export function focusErrors() {
  const note = /** @type {HTMLElement | null} */ (document.querySelector("[data-form-errors]"));
  note?.focus();
}
