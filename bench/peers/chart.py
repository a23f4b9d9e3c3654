"""A bar chart as SVG text that stands alone. Standard library only."""
from html import escape

BAR, GAP, LEFT, WIDTH, TOP = 22, 10, 190, 460, 46


def bars(title: str, unit: str, values: dict[str, float]) -> str:
    """A horizontal bar a name, its number behind it; lengths are proportional to the values."""
    longest = max(values.values())
    height = TOP + len(values) * (BAR + GAP) + GAP
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 110} {height}" font-family="sans-serif" font-size="13">',
             "<style>text{fill:#222}.bar{fill:#4a78b5}.ours{fill:#c2571a}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>",
             f'<text x="10" y="24" font-size="16">{escape(title)}</text>']
    for i, (name, value) in enumerate(values.items()):
        y = TOP + i * (BAR + GAP)
        length = max(WIDTH * value / longest, 1)
        kind = "ours" if name.startswith("strobe") else "bar"
        lines += [f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">{escape(name)}</text>',
                  f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}"/>',
                  f'<text x="{LEFT + length + 6:.1f}" y="{y + 16}">{value:.3g} {escape(unit)}</text>']
    return "\n".join(lines + ["</svg>"]) + "\n"
