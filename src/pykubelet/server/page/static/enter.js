// Keeps the key where no other origin can read it, and leaves no token in the address bar or the history.

import { keep } from "./connection.js";

keep(document.querySelector('meta[name="key"]').content);
location.replace("./");
