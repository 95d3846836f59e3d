// Draws the charts of a page, and, where the page is served, follows the run.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const views = new Map();

  // Colours are the page's own variables, so that a chart follows light, dark and print without being drawn anew.
  const ink = "var(--ink)", soft = "var(--soft)", line = "var(--line)";
  const theme = (wide) => ({
    background: "transparent", font: 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
    view: { stroke: null },
    axis: { labelColor: soft, titleColor: soft, gridColor: line, domainColor: line, tickColor: line,
            titleFontWeight: "normal", labelFontSize: 11, titleFontSize: 12, labelLimit: 220 },
    axisQuantitative: { tickCount: 6 },
    legend: { labelColor: ink, titleColor: soft, titleFontWeight: "normal", labelFontSize: 11, titleFontSize: 12, orient: "top",
              symbolStrokeWidth: 2, labelLimit: 130, titleLimit: wide, columns: Math.max(1, Math.floor((wide - 130) / 150)) },
    title: { color: ink, fontSize: 12, anchor: "start" },
    header: { labelColor: ink, titleColor: soft },
    text: { color: ink }, rule: { color: soft },
    point: { filled: true, size: 40 }, line: { strokeWidth: 2 },
    mark: { color: "var(--mark)" },
    range: { category: data.colours, heatmap: { scheme: "viridis" }, ramp: { scheme: "viridis" } },
  });

  const draw = async (key) => {
    const place = document.getElementById(key), spec = data.charts[key];
    if (!place || !spec || place.closest("[hidden]")) return;
    const name = place.getAttribute("aria-label");
    views.get(key)?.finalize();
    const wide = { width: "container", autosize: { type: "fit-x", contains: "padding" } };
    const composed = ["hconcat", "vconcat", "concat", "facet", "repeat"].some((word) => word in spec) || spec.encoding?.facet || spec.encoding?.row || spec.encoding?.column;
    const made = await vegaEmbed(place, { ...(composed ? {} : wide), ...spec },
      { mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, config: theme(place.clientWidth),
        tooltip: { disableDefaultStyle: true } });
    views.set(key, made);
    place.setAttribute("role", "img");  // one image with its caption, and not Vega's parts: its numbers are in the table
    place.setAttribute("aria-label", name);
    place.removeAttribute("aria-roledescription");
    place.querySelector("svg").setAttribute("aria-hidden", "true");
    place.dataset.drawn = "yes";
  };

  const drawAll = async (keys = Object.keys(data.charts)) => {
    for (const key of keys) {
      try { await draw(key); } catch (error) {
        const place = document.getElementById(key);
        if (place) place.textContent = `This chart cannot be drawn: ${error.message}. Its numbers are below.`;
        console.error(key, error);
      }
    }
    document.documentElement.dataset.drawn = "yes";
  };

  document.addEventListener("change", (event) => {
    const choice = event.target.closest(".choice");
    if (!choice) return;
    choice.querySelectorAll(":scope > figure").forEach((figure, place) => {
      figure.hidden = place !== Number(event.target.value);
    });
    drawAll([...choice.querySelectorAll("figure:not([hidden]) .chart")].map((one) => one.id));
  });
  const take = (fresh) => {
    document.title = `${fresh.run} ${fresh.state}`;
    const badge = document.getElementById("state");
    badge.textContent = fresh.state;
    badge.className = `badge s-${fresh.state}`;
    const main = document.getElementById("main");
    for (const panel of fresh.panels) {
      const section = document.getElementById(panel.name);
      if (data.digests[panel.name] !== panel.digest) {
        const holder = document.createElement("template");
        holder.innerHTML = panel.html;
        const made = holder.content.firstElementChild;
        const behind = fresh.order.slice(fresh.order.indexOf(panel.name) + 1);
        const next = behind.map((name) => document.getElementById(name)).find(Boolean);
        const settle = section ? keep(section, made) : () => list(panel, next);
        if (section) section.replaceWith(made); else main.insertBefore(made, next ?? null);
        settle();
        data.digests[panel.name] = panel.digest;
        Object.assign(data.charts, panel.charts);
        drawAll(Object.keys(panel.charts));
      }
    }
  };

  // What a reader opened, chose, scrolled to and stands on stays so in a panel that was made again.
  const keep = (section, made) => {
    const pairs = (css) => {
      const now = made.querySelectorAll(css);
      return [...section.querySelectorAll(css)].map((was, place) => [was, now[place]]).filter((pair) => pair[1]);
    };
    for (const [was, now] of pairs("details")) now.open = was.open;
    for (const [was, now] of pairs(".choice")) {
      const place = was.querySelector("select").selectedIndex, figures = now.querySelectorAll(":scope > figure");
      if (place >= figures.length) continue;
      now.querySelector("select").selectedIndex = place;
      figures.forEach((figure, n) => { figure.hidden = n !== place; });
    }
    const scrolled = pairs("[tabindex]").map(([was, now]) => [now, was.scrollTop, was.scrollLeft]);
    const stood = pairs("summary, select, [tabindex]").find(([was]) => was === document.activeElement);
    return () => {
      for (const [now, top, left] of scrolled) now.scrollTo(left, top);
      stood?.[1].focus({ preventScroll: true });
    };
  };

  const list = (panel, next) => {
    const link = document.createElement("a");
    link.href = `#${panel.name}`;
    link.textContent = panel.title;
    const nav = document.querySelector("header nav");
    nav.insertBefore(link, next ? nav.querySelector(`[href="#${next.id}"]`) : null);
  };

  const follow = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(`${data.live}?since=${data.version}`);
        if (!answer.ok) throw new Error(answer.statusText);
        const fresh = await answer.json();
        take(fresh);
        data.version = fresh.version;
        say("");
      } catch { say(`diel view no longer answers: this is what it said last, at ${heard.toLocaleTimeString()}.`); }
    }
    setTimeout(follow, 2000);
  };

  let heard = new Date();
  const say = (text) => {
    if (!text) heard = new Date();
    let line = document.getElementById("silent");
    if (!line && text) {
      line = document.createElement("p");
      line.id = "silent"; line.className = "bad"; line.setAttribute("role", "status");
      document.getElementById("main").prepend(line);
    }
    if (line) { line.textContent = text; line.hidden = !text; }
  };

  drawAll().then(() => { if (data.live) setTimeout(follow, 2000); });
})();
