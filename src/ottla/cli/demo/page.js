"use strict";
// What a point says, where the pointer is. It stays while the charts are renewed.
let pointer = null;

function point() {
  document.querySelectorAll(".tip, .cursor").forEach((old) => old.remove());
  const under = pointer && document.elementFromPoint(pointer.x, pointer.y);
  const chart = under && under.closest(".chart");
  if (!chart) return;
  const box = chart.getBoundingClientRect();
  const places = chart.dataset.at.split(" ").map(Number);
  const x = (pointer.x - box.left) / box.width;
  let nearest = 0;
  places.forEach((place, i) => {
    if (Math.abs(place - x) < Math.abs(places[nearest] - x)) nearest = i;
  });
  const cursor = document.createElement("div");
  cursor.className = "cursor";
  cursor.style.left = `${places[nearest] * 100}%`;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.textContent = JSON.parse(chart.dataset.tips)[nearest];
  chart.append(cursor, tip);
  const left = places[nearest] * box.width - tip.offsetWidth / 2;
  tip.style.left = `${Math.max(-40, Math.min(left, box.width - tip.offsetWidth + 10))}px`;
}

addEventListener("pointermove", (event) => { pointer = event; point(); });
document.documentElement.addEventListener("pointerleave", () => { pointer = null; point(); });

const state = document.getElementById("state");
const shown = document.querySelector("main");
let failures = 0;

async function renew() {
  try {
    const answer = await fetch("live", { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    shown.innerHTML = await answer.text();
    failures = 0;
    point();
  } catch {
    failures += 1;
  }
  if (failures === 3) {
    state.className = "";
    state.textContent = "The demo has ended; this is its last state";
    return;
  }
  setTimeout(renew, document.hidden ? 5000 : 1000);
}

if (state.classList.contains("live")) setTimeout(renew, 1000);
