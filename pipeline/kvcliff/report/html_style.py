"""The style sheet of the HTML report: readable in light and dark, on paper and on a narrow screen."""

STYLE = """\
:root {
  color-scheme: light dark;
  --ground: #ffffff; --ink: #1f2328; --quiet: #59636e; --line: #d1d9e0; --soft: #f6f8fa; --link: #0b57b0;
  --critical: #b42318; --warning: #9a6700; --calm: #1a7f37; --unknown: #6e7781;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d1117; --ink: #e6edf3; --quiet: #9ea7b3; --line: #3d444d; --soft: #151b23; --link: #79b8ff;
    --critical: #ff8178; --warning: #e3b341; --calm: #56d364; --unknown: #9ea7b3;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .8rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h2 a { color: inherit; text-decoration: none; }
h2 a:hover { text-decoration: underline; }
p, li { max-width: 52rem; overflow-wrap: break-word; }
a { color: var(--link); }
.quiet, figcaption { color: var(--quiet); }
.notice { border: 1px solid var(--line); border-left: 4px solid var(--warning); background: var(--soft);
  padding: .2rem 1rem; margin: 1rem 0; border-radius: 4px; }
.verdict { border: 1px solid var(--line); border-left: 6px solid var(--unknown); background: var(--soft);
  padding: .4rem 1.1rem; margin: 1rem 0; border-radius: 6px; }
.verdict.critical { border-left-color: var(--critical); }
.verdict.warning { border-left-color: var(--warning); }
.verdict.calm { border-left-color: var(--calm); }
.verdict p { max-width: 64rem; }
.sentence { font-weight: 600; font-size: 1.08rem; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; padding: 0; margin: 1rem 0; }
nav li { margin: 0; }
nav a { text-decoration: none; font-size: .92rem; }
nav a:hover { text-decoration: underline; }
figure { margin: 1.2rem 0; }
figure img { display: block; width: 100%; height: auto; min-width: 34rem; background: #ffffff;
  border-radius: 6px; }
figcaption { font-size: .92rem; margin-top: .5rem; max-width: 52rem; }
.wide { overflow-x: auto; max-width: 100%; }
figure .wide { border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; margin: .8rem 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
th { background: var(--soft); font-weight: 600; vertical-align: bottom; }
td.number, th.number { text-align: right; }
td.long { min-width: 13rem; }
td.number { white-space: nowrap; }
tbody tr:nth-child(even) { background: var(--soft); }
code, pre { font: .88em/1.45 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
td code { overflow-wrap: anywhere; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem;
  overflow-x: auto; max-width: 100%; }
li { margin: .35rem 0; }
@media (max-width: 40rem) {
  body { font-size: 15px; }
  main { padding: 1rem .75rem 3rem; }
  h1 { font-size: 1.3rem; }
}
@media print {
  nav { display: none; }
  main { max-width: none; padding: 0; }
  section, figure, table { break-inside: auto; }
  tr, h2 { break-inside: avoid; break-after: auto; }
  .wide { overflow: visible; }
  figure img { min-width: 0; }
}
"""
