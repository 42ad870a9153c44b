"use strict";
let data = null;  // of a game: seats, names, trapLimit, copies
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#a0527d", "#7a5cc4", "#6b6b6b"];
const HOLES = {  // where the holes of a back lie, in a card of 100 by 140, with their sizes
  1: [[50, 70, 17]],
  2: [[34, 45, 14], [65, 97, 16]],
  3: [[30, 38, 13], [67, 66, 15], [34, 104, 14]],
  4: [[31, 36, 13], [70, 47, 12], [32, 92, 14], [69, 106, 13]],
  5: [[29, 34, 12], [71, 38, 13], [50, 70, 12], [29, 105, 13], [71, 103, 12]],
  6: [[30, 34, 11], [69, 45, 11], [29, 72, 12], [71, 79, 11], [31, 110, 12], [70, 113, 11]],
};
const byId = (id) => document.getElementById(id);

function plural(number, word) { return `${number} ${word}${number === 1 ? "" : "s"}`; }

function html(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function text(x, y, size, content, attributes = {}) {
  const node = svg("text", { x, y, "font-size": size, "text-anchor": "middle", "font-weight": 700, ...attributes });
  node.textContent = content;
  return node;
}

function defs() {  // gradients that all cards share
  const stops = (id, a, b) => svg("linearGradient", { id, x1: 0, y1: 0, x2: 1, y2: 1 },
    svg("stop", { offset: 0, "stop-color": a }), svg("stop", { offset: 1, "stop-color": b }));
  const hole = svg("radialGradient", { id: "paint-hole", cx: ".58", cy: ".62", r: ".62" },
    svg("stop", { offset: 0, "stop-color": "#dc9a21" }), svg("stop", { offset: 1, "stop-color": "#a86a0c" }));
  document.body.append(svg("svg", { width: 0, height: 0, class: "defs" }, svg("defs", {},
    stops("paint-back", "#ffdf7a", "#f4b731"), stops("paint-front", "#fffbe9", "#ffeeb8"), stops("paint-trap", "#f4ece6", "#dccdc3"), hole)));
}

function wedge(x, y, size) {  // a piece of cheese, about 100 wide
  return svg("g", { transform: `translate(${x} ${y}) scale(${size})` },
    svg("path", { d: "M4 58 L74 14 Q96 26 96 52 L96 58 Z", fill: "#ffd95e", stroke: "#b97c10", "stroke-width": 4, "stroke-linejoin": "round" }),
    svg("path", { d: "M4 58 L96 58 L96 88 L4 88 Z", fill: "#f6b93b", stroke: "#b97c10", "stroke-width": 4, "stroke-linejoin": "round" }),
    svg("circle", { cx: 26, cy: 74, r: 8, fill: "#c9851a" }), svg("circle", { cx: 60, cy: 70, r: 6, fill: "#c9851a" }),
    svg("circle", { cx: 80, cy: 78, r: 5, fill: "#c9851a" }), svg("ellipse", { cx: 70, cy: 40, rx: 8, ry: 5, fill: "#d99a28" }));
}

function trap(x, y, size) {  // a mousetrap
  return svg("g", { transform: `translate(${x} ${y}) scale(${size})` },
    svg("rect", { x: 6, y: 22, width: 88, height: 62, rx: 6, fill: "#b98048", stroke: "#6d4520", "stroke-width": 4 }),
    svg("path", { d: "M50 30 L50 76", stroke: "#4a4a4a", "stroke-width": 5 }),
    svg("rect", { x: 15, y: 33, width: 36, height: 40, rx: 5, fill: "none", stroke: "#4a4a4a", "stroke-width": 5 }),
    svg("path", { d: "M47 40 l6 5 l-6 5 l6 5 l-6 5 l6 5", fill: "none", stroke: "#888", "stroke-width": 4 }),
    svg("path", { d: "M66 62 L84 50 L86 64 Z", fill: "#ffd24a", stroke: "#b97c10", "stroke-width": 2.5 }));
}

function back(holes, front = 0) {  // a back, with what is known of its front in a corner
  const card = svg("svg", { class: "card", viewBox: "0 0 100 140" },
    svg("rect", { x: 1.5, y: 1.5, width: 97, height: 137, rx: 11, fill: "url(#paint-back)", stroke: "#b97c10", "stroke-width": 3 }));
  for (const [x, y, r] of HOLES[holes]) {
    card.append(svg("ellipse", { cx: x, cy: y, rx: r, ry: r * .93, fill: "url(#paint-hole)", stroke: "#8f5a08", "stroke-width": 1.6 }));
  }
  card.append(svg("circle", { cx: 84, cy: 16, r: 11, fill: "#fff8e0", stroke: "#b97c10", "stroke-width": 1.5 }),
    text(84, 21.5, 16, holes, { fill: "#7a4d05" }));
  if (front) {
    const colour = front === 1 ? "#2e8b57" : "#c0392b";
    card.append(svg("rect", { x: 12, y: 79, width: 76, height: 52, rx: 9, fill: "#fffaf0", stroke: colour, "stroke-width": 4 }),
      front === 1 ? wedge(32, 79, .37) : trap(31, 78, .38), text(50, 127, 12, front === 1 ? "cheese" : "TRAP", { fill: colour }));
  }
  card.append(title(plural(holes, "hole") + ["", ", cheese", ", trap"][front]));
  return card;
}

function noCard() {
  return svg("svg", { class: "card gap", viewBox: "0 0 100 140" },
    svg("rect", { x: 3, y: 3, width: 94, height: 134, rx: 11, fill: "#0002", stroke: "#fff6", "stroke-width": 2, "stroke-dasharray": "7 6" }));
}

function title(content) {
  const node = svg("title", {});
  node.textContent = content;
  return node;
}

function front(holes, isTrap, width) {  // a taken card
  return svg("svg", { viewBox: "0 0 100 140", width, height: width * 1.4 },
    svg("rect", { x: 3, y: 3, width: 94, height: 134, rx: 13, fill: isTrap ? "url(#paint-trap)" : "url(#paint-front)", stroke: isTrap ? "#c0392b" : "#b97c10", "stroke-width": 6 }),
    isTrap ? trap(13, 12, .74) : wedge(13, 8, .74),
    text(50, 126, 46, holes, { fill: isTrap ? "#c0392b" : "#7a4d05", ...(isTrap ? { "text-decoration": "line-through" } : {}) }),
    title(`${isTrap ? "trap" : "cheese"} of ${plural(holes, "hole")}`));
}

function die(number) {
  const spots = { 1: [4], 2: [0, 8], 3: [0, 4, 8], 4: [0, 2, 6, 8], 5: [0, 2, 4, 6, 8], 6: [0, 2, 3, 5, 6, 8] }[number] || [];
  const node = svg("svg", { class: "die", viewBox: "0 0 60 60", width: 50, height: 50, role: "img" },
    svg("rect", { x: 2, y: 2, width: 56, height: 56, rx: 12, fill: "#fff", stroke: "#bbb", "stroke-width": 2 }), title(`die ${number}`));
  for (const spot of spots) {
    node.append(svg("circle", { cx: 15 + 15 * (spot % 3), cy: 15 + 15 * Math.floor(spot / 3), r: 5.4, fill: "#33261a" }));
  }
  return node;
}

function mouse(seat) {
  const node = html("span", "mouse", seat);
  node.style.background = COLOURS[seat];
  node.title = data.seats[seat];
  return node;
}

function drawSlot(state, slot) {
  const holes = state.row[slot];
  const node = html("div", "slot");
  if (state.turn !== null && state.matching.includes(slot)) node.classList.add("match");
  if (state.peekedAt === slot) node.classList.add("acted");
  const seers = html("div", "seers");
  for (const seat of state.peeked[slot]) seers.append(mouse(seat));
  node.append(html("div", "name", `slot ${slot}`), seers);
  if (!holes) {
    node.append(noCard());
    return node;
  }
  node.append(back(holes, state.front[slot]));
  node.append(html("div", "chance", state.front[slot] ? "known" : `trap ${Math.round(100 * state.chance[slot])} %`));
  return node;
}

function drawPiles(state) {
  const reserve = html("div");
  reserve.append(html("div", "what", `reserve: ${state.reserve}`));
  reserve.append(state.top ? back(state.top) : noCard());
  if (state.die) reserve.append(die(state.die));
  byId("reserve").replaceChildren(...reserve.childNodes);
  const gone = html("div");
  gone.append(html("div", "what", `discarded: ${state.discarded.reduce((a, b) => a + b, 0)}`));
  const chart = svg("svg", { class: "chart", viewBox: "0 0 100 140" });
  const most = Math.max(1, ...data.copies);
  state.discarded.forEach((count, k) => {
    const y = 8 + k * 132 / data.copies.length;
    chart.append(text(12, y + 12, 13, k + 1, { fill: "#ffdf7a" }),
      svg("rect", { x: 24, y, width: 72, height: 13, rx: 6, fill: "#0003" }),
      svg("rect", { x: 24, y, width: 72 * count / most, height: 13, rx: 6, fill: "#f4b731",
        ...(state.discardedHoles === k + 1 ? { stroke: "#fff", "stroke-width": 2, "stroke-dasharray": "4 3" } : {}) }));
    if (count) chart.append(text(90, y + 11, 11, count, { fill: "#fff8e0" }));
  });
  chart.append(title("cards on the discard pile, by holes"));
  gone.append(chart);
  byId("gone").replaceChildren(...gone.childNodes);
}

function mark(state, seat) {  // whose turn it is and who has won, also without colours
  return state.winners.includes(seat) ? "★ " : state.turn === seat ? "▶ " : "";
}

function drawSeat(state, seat) {
  const node = html("div", "seat");
  if (state.turn === seat) node.classList.add("turn");
  if (state.winners.includes(seat)) node.classList.add("winner");
  const head = html("div", "head");
  const traps = html("span", "traps");
  for (let k = 0; k < Math.max(data.trapLimit, state.traps[seat]) && k < 6; k++) {
    const icon = svg("svg", { viewBox: "0 0 100 100", width: 19, height: 19 }, trap(0, 0, 1));
    icon.style.opacity = k < state.traps[seat] ? 1 : .18;
    traps.append(icon);
  }
  traps.title = `${state.traps[seat]} of ${data.trapLimit} traps`;
  const points = html("span", "points", state.points[seat]);
  points.append(html("small", "", state.points[seat] === 1 ? " point" : " points"));
  head.append(mouse(seat), html("span", "who", mark(state, seat) + data.names[seat]), traps, points);
  const taken = html("div", "taken");
  const size = state.taken[seat].length > (data.seats.length > 2 ? 16 : 28) ? 22 : 30;
  for (const [holes, isTrap] of state.taken[seat]) taken.append(front(holes, isTrap, size));
  if (state.takenBy === seat) taken.lastChild.classList.add("new");
  node.append(head, taken);
  return node;
}

function drawTable(state, last) {
  byId("row").replaceChildren(...state.row.map((_, slot) => drawSlot(state, slot)));
  drawPiles(state);
  byId("seats").replaceChildren(...data.seats.map((_, seat) => drawSeat(state, seat)));
  byId("seats").classList.toggle("many", data.seats.length > 2 && data.seats.length !== 4);
  byId("last").textContent = last;
  byId("now").textContent = state.now;
}
