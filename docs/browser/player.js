// A deployed policy in the browser: what envlab/tools/deploy.py does, in MuJoCo's WebAssembly build.
//
// A folder holds policy.onnx, scene.xml and policy.json, which is the metadata of policy.onnx.

import loadMujoco from "./built/lib/mujoco.js";
import * as ort from "./built/lib/ort.wasm.min.mjs";

const FREE = 0; // mjJNT_FREE
const OBJECT = { body: 1, joint: 3, sensor: 20, key: 24 }; // mjtObj

ort.env.wasm.numThreads = 1; // several need headers that static servers do not send
ort.env.wasm.wasmPaths = new URL("./built/lib/", import.meta.url).href;

let engine;

/** Return the player of a folder. Errors are sentences for the visitor. */
export async function openPlayer(folder) {
  engine ??= await loadMujoco();
  const [cfg, xml, session] = await Promise.all([
    fetched(`${folder}/policy.json`).then((answer) => answer.json()),
    fetched(`${folder}/scene.xml`).then((answer) => answer.text()),
    ort.InferenceSession.create(`${folder}/policy.onnx`, { executionProviders: ["wasm"] }),
  ]);
  const model = engine.MjModel.from_xml_string(xml);
  return new Player(cfg, model, new engine.MjData(model), session);
}

async function fetched(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url} is not there (${answer.status}). Build it again.`);
  return answer;
}

export class Player {
  constructor(cfg, model, data, session) {
    Object.assign(this, { cfg, model, data, session });
    for (const [name, term] of Object.entries(cfg.observations)) {
      if (!(functionName(term) in TERMS)) {
        throw new Error(
          `The policy observes ${name}, which ${term.func} computes, and this page does not know ` +
            "it. Add a function of that name to TERMS in player.js.",
        );
      }
    }
    this.joints = new Map(cfg.joint_names.map((name) => [name, this.id("joint", name)]));
    this.default = new Float64Array(model.njnt);
    cfg.joint_names.forEach((name, i) => {
      this.default[this.joints.get(name)] = cfg.default_joint_pos[i];
    });
    this.actions = Object.values(cfg.actions).map((term) => ({
      ...term,
      actuators: term.joint_names.map((name) => this.actuator(this.joints.get(name))),
    }));
    const size = this.actions.reduce((sum, term) => sum + term.actuators.length, 0);
    this.lastAction = new Float32Array(size);
    this.commands = Object.fromEntries(
      Object.entries(cfg.commands).map(([name, command]) => [name, [...command.value]]),
    );
    this.root = cfg.root_body === null ? -1 : this.id("body", cfg.root_body); // -1: it is fixed
    model.opt.timestep = cfg.physics_dt;
    this.reset();
  }

  /** Free what lies in WebAssembly's memory. */
  close() {
    this.data.delete();
    this.model.delete();
    this.session.release();
  }

  /** Start again, in the pose in which training's episodes start. */
  reset() {
    const key = engine.mj_name2id(this.model, OBJECT.key, "home");
    if (key < 0) engine.mj_resetData(this.model, this.data);
    else engine.mj_resetDataKeyframe(this.model, this.data, key);
    this.data.ctrl.fill(0);
    this.lastAction.fill(0);
    engine.mj_forward(this.model, this.data);
  }

  /** Return the observation, a Float32Array: each term clipped, then scaled. */
  observe() {
    const observation = [];
    for (const term of Object.values(this.cfg.observations)) {
      const values = [...TERMS[functionName(term)](this, term.params)];
      values.forEach((value, i) => observation.push(clipped(value, term.clip) * at(term.scale, i)));
    }
    return Float32Array.from(observation);
  }

  /** Return the policy's action for an observation. */
  async act(observation = this.observe()) {
    const obs = new ort.Tensor("float32", observation, [1, observation.length]);
    return (await this.session.run({ obs })).actions.data;
  }

  /** Write controls clip(scale * action + offset), and let one control step pass. */
  step(action) {
    this.lastAction.set(action);
    let start = 0;
    const { ctrl } = this.data;
    for (const { actuators, scale, offset, clip } of this.actions) {
      actuators.forEach((actuator, i) => {
        const scaled = Math.fround(action[start + i] * Math.fround(at(scale, i)));
        const limits = clip?.map((ends) => at(ends, i));
        ctrl[actuator] = clipped(Math.fround(scaled + Math.fround(at(offset, i))), limits);
      });
      start += actuators.length;
    }
    for (let i = 0; i < this.cfg.decimation; i++) engine.mj_step(this.model, this.data);
    engine.mj_step1(this.model, this.data); // sensors of the state that the step ended in
  }

  /** Push a robot that is free to move: metres per second in the world. */
  push(x, y) {
    if (!this.isFree) return;
    const start = this.model.body_dofadr[this.root];
    this.data.qvel[start] += x;
    this.data.qvel[start + 1] += y;
  }

  get isFree() {
    if (this.root < 0) return false;
    const joint = this.model.body_jntadr[this.root];
    return joint >= 0 && this.model.jnt_type[joint] === FREE;
  }

  // What observations are made of ---------------------------------------------------------------

  id(kind, name) {
    const found = engine.mj_name2id(this.model, OBJECT[kind], name);
    if (found < 0) throw new Error(`scene.xml has no ${kind} ${name}. Export it again.`);
    return found;
  }

  actuator(joint) {
    const { actuator_trnid: target, actuator_trntype: type, nu } = this.model;
    for (let i = 0; i < nu; i++) if (type[i] === 0 && target[2 * i] === joint) return i;
    throw new Error(`scene.xml has no actuator on joint ${joint}. Export it again.`);
  }

  /** The root's position, orientation (w, x, y, z), linear and angular velocity. */
  rootState() {
    const start = this.model.jnt_qposadr[this.model.body_jntadr[this.root]];
    const dof = this.model.body_dofadr[this.root];
    const { qpos, qvel } = this.data;
    return {
      position: qpos.slice(start, start + 3),
      orientation: qpos.slice(start + 3, start + 7),
      velocity: qvel.slice(dof, dof + 3),
      turning: qvel.slice(dof + 3, dof + 6),
    };
  }

  ids(params) {
    return (params.joint_names ?? this.cfg.joint_names).map((name) => this.joints.get(name));
  }

  positions(params) {
    return this.ids(params).map((joint) => this.data.qpos[this.model.jnt_qposadr[joint]]);
  }

  velocities(params) {
    return this.ids(params).map((joint) => this.data.qvel[this.model.jnt_dofadr[joint]]);
  }

  relative(params) {
    const ids = this.ids(params);
    return this.positions(params).map((position, i) => position - this.default[ids[i]]);
  }

  normalised(params) {
    const ids = this.ids(params);
    return this.positions(params).map((position, i) => {
      const [low, high] = this.model.jnt_range.slice(2 * ids[i], 2 * ids[i] + 2);
      return (2 * position - (low + high)) / (high - low);
    });
  }

  /** The velocity of the root's centre of mass in the root's frame. */
  linearVelocity() {
    const { orientation, velocity, turning: t } = this.rootState();
    const c = this.model.body_ipos.slice(3 * this.root, 3 * this.root + 3);
    const own = turnedBack(orientation, velocity);
    const cross = [t[1] * c[2] - t[2] * c[1], t[2] * c[0] - t[0] * c[2], t[0] * c[1] - t[1] * c[0]];
    return own.map((value, i) => value + cross[i]);
  }

  sensors(params) {
    return params.sensor_names.flatMap((name) => {
      const sensor = this.id("sensor", name);
      const start = this.model.sensor_adr[sensor];
      return [...this.data.sensordata.slice(start, start + this.model.sensor_dim[sensor])];
    });
  }

  /** The root's roll, pitch and yaw. */
  euler() {
    const [w, x, y, z] = this.rootState().orientation;
    return [
      Math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
      Math.asin(Math.min(1, Math.max(-1, 2 * (w * y - z * x)))),
      Math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    ];
  }

  /** The way on the ground from the root to a point. */
  wayTo([x, y]) {
    const { position } = this.rootState();
    return [x - position[0], y - position[1]];
  }

  bearing({ target_pos }) {
    const [x, y] = this.wayTo(target_pos);
    const turn = Math.atan2(y, x) - this.euler()[2] + Math.PI;
    return turn - 2 * Math.PI * Math.floor(turn / (2 * Math.PI)) - Math.PI;
  }

  facing({ target_pos }) {
    const [w, x, y, z] = this.rootState().orientation;
    const way = this.wayTo(target_pos);
    const forward = [1 - 2 * (y * y + z * z), 2 * (x * y + w * z)];
    return (forward[0] * way[0] + forward[1] * way[1]) / Math.hypot(...way);
  }
}

/** Return a vector of the world in the frame of a quaternion (w, x, y, z). */
function turnedBack([w, x, y, z], [a, b, c]) {
  // The transposed rotation matrix, column by column.
  return [
    (1 - 2 * (y * y + z * z)) * a + 2 * (x * y + w * z) * b + 2 * (x * z - w * y) * c,
    2 * (x * y - w * z) * a + (1 - 2 * (x * x + z * z)) * b + 2 * (y * z + w * x) * c,
    2 * (x * z + w * y) * a + 2 * (y * z - w * x) * b + (1 - 2 * (x * x + y * y)) * c,
  ];
}

const functionName = (term) => term.func.slice(term.func.lastIndexOf(":") + 1);
const at = (values, i) => (Array.isArray(values) ? values[i] : values);

function clipped(value, limits) {
  return limits ? Math.min(limits[1], Math.max(limits[0], value)) : value;
}

/** Observations by the name of the function that computed them in training. */
const TERMS = {
  base_pos_z: (player) => [player.rootState().position[2]],
  base_lin_vel: (player) => player.linearVelocity(),
  base_ang_vel: (player) => player.rootState().turning,
  projected_gravity: (player) => turnedBack(player.rootState().orientation, [0, 0, -1]),
  generated_commands: (player, params) => player.commands[params.command_name],
  joint_pos: (player, params) => player.positions(params),
  joint_pos_rel: (player, params) => player.relative(params),
  joint_pos_limit_normalized: (player, params) => player.normalised(params),
  joint_vel: (player, params) => player.velocities(params),
  joint_vel_rel: (player, params) => player.velocities(params),
  last_action: (player) => player.lastAction,
  sensor: (player, params) => player.sensors(params),
  base_yaw_roll: (player) => [player.euler()[2], player.euler()[0]],
  base_angle_to_target: (player, params) => [player.bearing(params)],
  base_up_proj: (player) => {
    const [, x, y] = player.rootState().orientation;
    return [1 - 2 * (x * x + y * y)];
  },
  base_heading_proj: (player, params) => [player.facing(params)],
};
