// Drawing on a canvas, in pixels of the page.

const MONO =
  'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'

class Pen {
  // Start with an empty canvas of this size. scale: pixels of the canvas for one of the page, more
  // than 1 on fine screens. Setting a canvas's size is slow even if nothing changes, so a canvas
  // that has the right size is only wiped.
  constructor(canvas, width, height, scale = devicePixelRatio) {
    this.context = canvas.getContext("2d")
    setIfChanged(canvas, "width", Math.ceil(width * scale))
    setIfChanged(canvas, "height", Math.ceil(height * scale))
    // another scale may make the same number of pixels of another size
    canvas.style.width = `${width}px`
    canvas.style.height = `${height}px`
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

  // Write a text. align says which part of it is at x: its "start", "center" or "end"; y is its
  // vertical middle. upright: turned by 90° so that it reads from bottom to top.
  text(x, y, text, size, fillStyle, textAlign = "center", upright = false) {
    const {context} = this
    context.save()
    context.translate(x, y)
    if (upright) context.rotate(-Math.PI / 2)
    context.font = `${size}px ${MONO}`
    Object.assign(context, {fillStyle, textAlign, textBaseline: "middle"})
    context.fillText(text, 0, 0)
    context.restore()
  }
}
