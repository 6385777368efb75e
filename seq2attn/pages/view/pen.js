// Drawing on a canvas.

const MONO =
  'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'

class Pen {
  // scale: pixels of the canvas for one of the page. A canvas that has this size is wiped.
  constructor(canvas, width, height, scale = devicePixelRatio) {
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
