"""The style of the page, and the script that shows a curve's values under the pointer."""

COLOURS = 8
"""Different colours of curves; the next one is the first again."""

STYLE = """
:root { color-scheme: light dark; --text: #1c2330; --soft: #5d6878; --line: #d5dbe3; --page: #fff; --card: #f5f7fa;
  --c0: #2f6fd0; --c1: #d9730d; --c2: #1a8f5a; --c3: #b8408f; --c4: #7a5ad6; --c5: #a8860b; --c6: #0d8c9c;
  --c7: #c0392b }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ee; --soft: #98a3b3; --line: #39424f; --page: #14181e;
  --card: #1d232b; --c0: #6ea4f5; --c1: #f0a04b; --c2: #4fc48c; --c3: #e27dbd; --c4: #a98ff2; --c5: #dabb45;
  --c6: #4bbfcd; --c7: #ee7468 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
h1, h2, td, th, code { overflow-wrap: anywhere }
.charts { margin-top: 1rem; display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)) }
figure { margin: 0; padding: .75rem; background: var(--card); border-radius: 8px; position: relative; min-width: 0 }
figcaption { font-weight: 600; margin-bottom: .25rem }
svg { display: block; width: 100%; height: auto } svg text { fill: var(--soft); font-size: 12px }
svg .name { fill: var(--text) } .grid { stroke: var(--line) } .curve { fill: none; stroke-width: 2 }
.box { fill: var(--page); stroke: var(--line) } .device { fill: none; stroke: var(--soft) }
.scroll { overflow-x: auto } table { border-collapse: collapse } td, th { padding: .2rem .8rem .2rem 0;
  text-align: left; vertical-align: top } th { color: var(--soft); font-weight: 500; white-space: nowrap }
pre { overflow-x: auto; background: var(--card); padding: .75rem; border-radius: 8px; font-size: 13px }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .35em }
.keys { display: flex; flex-wrap: wrap; gap: .1rem 1rem; color: var(--soft); font-size: 13px }
.tip { position: absolute; pointer-events: none; background: var(--page); border: 1px solid var(--line);
  border-radius: 6px; padding: .25rem .5rem; font-size: 12px; display: none; z-index: 1 }
video, .film { max-width: 100%; border-radius: 8px } .soft { color: var(--soft) }
"""

SCRIPT = """
document.querySelectorAll("figure[data-curves]").forEach(figure => {
  const data = JSON.parse(figure.dataset.curves), svg = figure.querySelector("svg");
  const tip = figure.querySelector(".tip"), line = svg.querySelector(".pointer");
  const short = v => Math.abs(v) >= 1e6 ? (v / 1e6).toFixed(2) + "M" : Math.abs(v) >= 1e4 ? (v / 1e3).toFixed(1) + "k"
    : Number(v.toPrecision(4)).toString();
  svg.addEventListener("pointermove", event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const share = (at.x - data.left) / (data.right - data.left);
    if (share < 0 || share > 1) { tip.style.display = line.style.display = "none"; return; }
    const x = data.low + share * (data.high - data.low);
    tip.replaceChildren();
    const add = text => { const row = document.createElement("div"); row.textContent = text; tip.append(row); };
    add(short(x) + " " + data.title);
    data.curves.forEach(curve => {
      let best = null;
      curve.points.forEach(p => { if (!best || Math.abs(p[0] - x) < Math.abs(best[0] - x)) best = p; });
      if (best) add(curve.name + ": " + short(best[1]));
    });
    line.setAttribute("x1", at.x); line.setAttribute("x2", at.x);
    tip.style.display = line.style.display = "block";
    const frame = figure.getBoundingClientRect(), left = event.clientX - frame.left;
    tip.style.left = (left > frame.width / 2 ? left - tip.offsetWidth - 12 : left + 12) + "px";
    tip.style.top = (event.clientY - frame.top - 10) + "px";
  });
  svg.addEventListener("pointerleave", () => { tip.style.display = line.style.display = "none"; });
});
"""
