// Loaded on every page behind the login. Everything here improves a page that already works without it.

import { bindConfirm } from "./lib/confirm.js";
import { bindKeys } from "./lib/keys.js";
import { refreshAges } from "./lib/time.js";
import { bindCopy, bindFilters, bindMenus, bindShownWith, focusErrors } from "./lib/widgets.js";

bindKeys();
bindConfirm();
bindCopy();
bindFilters();
bindMenus();
bindShownWith();
focusErrors();
refreshAges();
setInterval(() => {
  if (!document.hidden) refreshAges();
}, 1000);
