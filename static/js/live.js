// Entry of pages with live charts. Plotly is a plain script of the page, loaded before this module runs.

import { startLivePage } from "./live/page.js";
import { bindStatus } from "./live/status.js";

startLivePage(/** @type {any} */ (globalThis).Plotly);
bindStatus();
