// Browsers refuse workers on pages of the file system. There the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.loaded = new Promise((done) => {
        const start = () => {
          const frame = document.createElement("iframe")
          frame.hidden = true
          document.body.append(frame)
          const inner = frame.contentWindow
          inner.importScripts = () => {}
          inner.postMessage = (data) => {
            const event = new MessageEvent("message", { data })
            this.dispatchEvent(event)
            if (this.onmessage) this.onmessage(event)
          }
          const script = frame.contentDocument.createElement("script")
          script.onload = () => done(inner)
          script.src = new URL(url, location)
          frame.contentDocument.body.append(script)
        }
        if (document.body) start()
        else addEventListener("DOMContentLoaded", start)
      })
    }

    postMessage(data) {
      this.loaded.then((inner) =>
        inner.dispatchEvent(new inner.MessageEvent("message", { data })),
      )
    }

    terminate() {}
  }
}
