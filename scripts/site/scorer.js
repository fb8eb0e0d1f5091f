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
