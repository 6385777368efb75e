// Drawing on a canvas, or as SVG with the same calls.

const SVG = "http://www.w3.org/2000/svg"
const MONO =
  'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'

class CanvasPen {
  constructor(canvas, width, height) {
    const scale = window.devicePixelRatio || 1,
      size = [Math.ceil(width * scale), Math.ceil(height * scale)]
    this.context = canvas.getContext("2d")
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      ;[canvas.width, canvas.height] = size
      canvas.style.width = `${width}px`
      canvas.style.height = `${height}px`
    }
    this.context.setTransform(scale, 0, 0, scale, 0, 0)
    this.context.clearRect(0, 0, width, height)
  }

  fill(x, y, width, height, colour) {
    this.context.fillStyle = colour
    this.context.fillRect(x, y, width, height)
  }

  frame(x, y, width, height, colour, thick) {
    this.context.strokeStyle = colour
    this.context.lineWidth = thick
    this.context.strokeRect(x, y, width, height)
  }

  line(x, y, toX, toY, colour, thick) {
    this.context.strokeStyle = colour
    this.context.lineWidth = thick
    this.context.beginPath()
    this.context.moveTo(x, y)
    this.context.lineTo(toX, toY)
    this.context.stroke()
  }

  // x, y: where the text's middle height is; align: start, middle or end; upright: turned by a
  // quarter.
  text(x, y, text, size, colour, align = "middle", upright = false) {
    const {context} = this
    context.save()
    context.translate(x, y)
    if (upright) context.rotate(-Math.PI / 2)
    context.font = `${size}px ${MONO}`
    context.fillStyle = colour
    context.textBaseline = "middle"
    context.textAlign = align === "middle" ? "center" : align
    context.fillText(text, 0, 0)
    context.restore()
  }
}

class SvgPen {
  constructor(width, height) {
    this.root = this.add("svg", {
      xmlns: SVG,
      width,
      height,
      viewBox: `0 0 ${width} ${height}`
    })
  }

  add(name, attributes, text) {
    const made = document.createElementNS(SVG, name)
    for (const [key, value] of Object.entries(attributes))
      if (key !== "xmlns") made.setAttribute(key, value)
    if (text !== undefined) made.textContent = text
    if (this.root) this.root.append(made)
    return made
  }

  fill(x, y, width, height, fill) {
    this.add("rect", {x, y, width, height, fill})
  }
  frame(x, y, width, height, stroke, thick) {
    this.add("rect", {
      x,
      y,
      width,
      height,
      fill: "none",
      stroke,
      "stroke-width": thick
    })
  }
  line(x1, y1, x2, y2, stroke, thick) {
    this.add("line", {x1, y1, x2, y2, stroke, "stroke-width": thick})
  }

  text(x, y, text, size, fill, align = "middle", upright = false) {
    const turn = upright ? {transform: `rotate(-90 ${x} ${y})`} : {}
    this.add(
      "text",
      {
        x,
        y,
        fill,
        "font-size": size,
        "font-family": MONO,
        "text-anchor": align,
        "dominant-baseline": "central",
        ...turn
      },
      text
    )
  }
}
