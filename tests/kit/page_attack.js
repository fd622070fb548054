// What a page of somebody else can try while a session is open in the same browser. -> what came of each
async (agent) => {
  const got = {};
  const tried = async (name, act) => { try { got[name] = await act(); } catch (error) { got[name] = `refused: ${error.name}`; } };
  await tried("fetch", async () => (await fetch(`${agent}/page/state`, {credentials: "include"})).text());
  await tried("opaque", async () => (await fetch(`${agent}/page/state`, {credentials: "include", mode: "no-cors"})).text());
  await tried("leave", async () => (await fetch(`${agent}/page/leave`, {method: "POST", credentials: "include", mode: "no-cors"})).text());
  await tried("script", () => import(`${agent}/page/files/state.js`).then(() => "loaded"));
  for (const path of ["/exec/default/quiet/c?command=id&output=1", "/page/stream"])
    await tried(`socket ${path}`, () => new Promise((done, fail) => {
      const socket = new WebSocket(agent.replace("https", "wss") + path, ["v4.channel.k8s.io"]);
      socket.onmessage = (message) => done("heard something");
      socket.onclose = () => fail(new Error("closed"));
    }));
  await tried("frame", () => new Promise((done) => {
    const frame = document.createElement("iframe");
    frame.src = `${agent}/page/`;
    frame.onload = () => { try { done(frame.contentDocument.body.innerText); } catch (error) { done("refused: cannot look"); } };
    document.body.append(frame);
  }));
  return got;
}
