// Drawing on a canvas, or into an SVG file with the same calls.

const MONO =
  'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'

class CanvasPen {
  constructor(canvas, width, height) {
    const scale = window.devicePixelRatio || 1
    const size = [Math.ceil(width * scale), Math.ceil(height * scale)]
    this.context = canvas.getContext("2d")
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      ;[canvas.width, canvas.height] = size
      canvas.style.width = `${width}px`
      canvas.style.height = `${height}px`
    }
    this.context.setTransform(scale, 0, 0, scale, 0, 0)
    this.context.clearRect(0, 0, width, height)
  }

  fill(x, y, width, height, fillStyle) {
    Object.assign(this.context, {fillStyle}).fillRect(x, y, width, height)
  }

  frame(x, y, width, height, strokeStyle, lineWidth) {
    Object.assign(this.context, {strokeStyle, lineWidth})
    this.context.strokeRect(x, y, width, height)
  }

  line(x, y, toX, toY, strokeStyle, lineWidth) {
    Object.assign(this.context, {strokeStyle, lineWidth})
    this.context.beginPath()
    this.context.moveTo(x, y)
    this.context.lineTo(toX, toY)
    this.context.stroke()
  }

  // x, y: where the text's middle height is; align: start, middle or end; upright: turned by a
  // quarter.
  text(x, y, text, size, fillStyle, align = "middle", upright = false) {
    const {context} = this
    const textAlign = align === "middle" ? "center" : align
    const font = `${size}px ${MONO}`
    context.save()
    context.translate(x, y)
    if (upright) context.rotate(-Math.PI / 2)
    Object.assign(context, {
      font,
      fillStyle,
      textAlign,
      textBaseline: "middle"
    })
    context.fillText(text, 0, 0)
    context.restore()
  }
}

// The same calls, for the text of an SVG file.
class SvgPen {
  marks = []

  fill(x, y, width, height, fill) {
    this.box(x, y, width, height, `fill="${fill}"`)
  }

  frame(x, y, width, height, stroke, thick) {
    const style = `fill="none" stroke="${stroke}" stroke-width="${thick}"`
    this.box(x, y, width, height, style)
  }

  box(x, y, width, height, style) {
    const size = `width="${width}" height="${height}"`
    this.marks.push(`<rect x="${x}" y="${y}" ${size} ${style}/>`)
  }

  line(x, y, toX, toY, stroke, thick) {
    const ends = `x1="${x}" y1="${y}" x2="${toX}" y2="${toY}"`
    this.marks.push(
      `<line ${ends} stroke="${stroke}" stroke-width="${thick}"/>`
    )
  }

  text(x, y, text, size, fill, align = "middle", upright = false) {
    const place = `x="${x}" y="${y}" fill="${fill}" font-size="${size}"`
    const turn = upright ? `transform="rotate(-90 ${x} ${y})"` : ""
    const anchor = `text-anchor="${align}" dominant-baseline="central"`
    const plain = text.replace(/[<&]/g, sign => `&#${sign.charCodeAt(0)};`)
    this.marks.push(`<text ${place} ${turn} ${anchor}>${plain}</text>`)
  }

  file(width, height) {
    const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`
    const font = "font-family='ui-monospace, Menlo, Consolas, monospace'"
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${font}>${this.marks.join("")}</svg>`
  }
}
