/* A pasted error message is found by its code: the file, the shapes and the numbers in it are the
   reader's own, and the search requires every word. */
var codeOf = (text) => (/\b(?:NKI|HLO|NEFF|PERF)-[A-Z0-9][A-Z0-9-]*|\bNCC_[A-Z0-9]+/.exec(text) || [text])[0];
if (typeof location !== "undefined" && typeof history !== "undefined") {
  const address = new URL(location.href), query = address.searchParams.get("q") || "";
  if (codeOf(query) !== query) {
    address.searchParams.set("q", codeOf(query));
    history.replaceState(null, "", address);
  }
}

/* How the site's search ranks pages: among equals, short answers come first and lists last. */
var rank = (name) =>
  name === "questions" || name === "recipes" ? 1 : /^(api|codes)\/|^CHANGELOG$/.test(name) ? -1 : 0;
var Scorer = {
  score: ([name, , , , score]) => score + rank(name),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
