"use strict";
// The page reads without this: it sorts the table of claims and unfolds the details for print.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const text = (row) => row.cells[column].textContent.trim();
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => text(a).localeCompare(text(b), "en", { numeric: true }));
      table.tBodies[0].append(...(down ? rows.reverse() : rows));
    });
  });
}
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) {
    details.open = true;
    details.dataset.print = "";
  }
});
addEventListener("afterprint", () => {
  for (const details of document.querySelectorAll("details[data-print]")) {
    details.open = false;
    delete details.dataset.print;
  }
});
