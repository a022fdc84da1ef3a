// The copy button of a Python example copies the code without prompts and outputs. The theme copies
// the attribute `data-copy` in place of the text.
for (const block of document.querySelectorAll("pre > code:has(> .gp)")) {
  const lines = block.textContent.split("\n").map((line) => line.match(/^(?:>>>|\.\.\.)(?: (.*))?$/));
  block.dataset.copy = lines.filter(Boolean).map((line) => line[1] ?? "").join("\n");
}
