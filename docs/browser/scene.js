// The picture of a MuJoCo model: its geoms in three.js, as MuJoCo's own viewer shows them.

import * as THREE from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";

const SHOWN_GROUPS = 3; // groups 0 to 2, as MuJoCo's viewer
const GEOM = { plane: 0, sphere: 2, capsule: 3, ellipsoid: 4, cylinder: 5, box: 6, mesh: 7 };
const FLOOR = 120; // metres

export class Scene {
  constructor(canvas) {
    THREE.Object3D.DEFAULT_UP.set(0, 0, 1);
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: true });
    this.renderer.shadowMap.enabled = true;
    this.renderer.shadowMap.type = THREE.PCFShadowMap;
    this.scene = new THREE.Scene();
    this.scene.background = new THREE.Color(0xd5e0e8);
    this.scene.fog = new THREE.Fog(0xd5e0e8, 12, 45);
    this.camera = new THREE.PerspectiveCamera(40, 1, 0.05, 200);
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.enablePan = false;
    this.controls.maxPolarAngle = 1.54;
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0x9aa4ad, 1.6));
    this.sun = new THREE.DirectionalLight(0xffffff, 2.2);
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.set(2048, 2048);
    this.sun.shadow.normalBias = 0.01;
    this.scene.add(this.sun, this.sun.target);
    this.robot = new THREE.Group();
    this.scene.add(this.robot);
    this.drawn = [];
  }

  /** Show another model, from a distance that fits it. */
  show(player) {
    this.player = player;
    for (const { mesh } of this.drawn) {
      mesh.geometry.dispose();
      mesh.material.map?.dispose();
      mesh.material.dispose();
    }
    this.robot.clear();
    this.drawn = [];
    const { model } = player;
    for (let geom = 0; geom < model.ngeom; geom++) {
      if (model.geom_group[geom] >= SHOWN_GROUPS) continue;
      const mesh = this.#mesh(model, geom);
      if (!mesh) continue;
      this.robot.add(mesh);
      this.drawn.push({ geom, mesh, isFloor: model.geom_type[geom] === GEOM.plane });
    }
    const size = Math.max(0.6, Math.min(3, model.stat.extent));
    this.sun.shadow.camera.left = this.sun.shadow.camera.bottom = -1.5 * size;
    this.sun.shadow.camera.right = this.sun.shadow.camera.top = 1.5 * size;
    this.sun.shadow.camera.updateProjectionMatrix();
    this.focus = this.#place();
    this.controls.target.copy(this.focus);
    this.camera.position.copy(this.focus).add(new THREE.Vector3(-1.6, -2.3, 1.0).setLength(2.6 * size));
    this.draw();
  }

  /** Draw the player's state; the camera goes along with the robot. */
  draw() {
    const { geom_xpos: places, geom_xmat: turns } = this.player.data;
    for (const { geom, mesh, isFloor } of this.drawn) {
      const p = 3 * geom;
      const t = 9 * geom;
      if (isFloor) continue;
      mesh.matrix.set(
        ...[turns[t], turns[t + 1], turns[t + 2], places[p]],
        ...[turns[t + 3], turns[t + 4], turns[t + 5], places[p + 1]],
        ...[turns[t + 6], turns[t + 7], turns[t + 8], places[p + 2]],
        ...[0, 0, 0, 1],
      );
    }
    const place = this.#place();
    const way = place.clone().sub(this.focus).multiplyScalar(0.2);
    this.focus.add(way);
    this.camera.position.add(way);
    this.controls.target.copy(this.focus);
    this.sun.target.position.copy(this.focus);
    this.sun.position.copy(this.focus).add(new THREE.Vector3(-2, -3, 6));
    this.controls.update();
    this.renderer.render(this.scene, this.camera);
  }

  resize(width, height) {
    this.renderer.setPixelRatio(Math.min(2, window.devicePixelRatio));
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
    if (this.player) this.draw();
  }

  /** Where the camera looks: at the robot's root, or at the middle of what does not walk. */
  #place() {
    const { data, model, root, isFree } = this.player;
    if (!isFree) return new THREE.Vector3(...model.stat.center);
    return new THREE.Vector3(...data.xpos.slice(3 * root, 3 * root + 3));
  }

  #mesh(model, geom) {
    const shape = geometryOf(model, geom);
    if (!shape) return null;
    const material = model.geom_matid[geom];
    const rgba =
      material >= 0
        ? model.mat_rgba.slice(4 * material, 4 * material + 4)
        : model.geom_rgba.slice(4 * geom, 4 * geom + 4);
    const isFloor = model.geom_type[geom] === GEOM.plane;
    const mesh = new THREE.Mesh(
      shape,
      new THREE.MeshStandardMaterial({
        color: isFloor ? 0xffffff : new THREE.Color().setRGB(...rgba.slice(0, 3), THREE.SRGBColorSpace),
        map: isFloor ? tiles() : null,
        roughness: isFloor ? 1 : 0.55,
        transparent: rgba[3] < 1,
        opacity: rgba[3],
      }),
    );
    mesh.castShadow = !isFloor;
    mesh.receiveShadow = true;
    mesh.matrixAutoUpdate = isFloor;
    mesh.frustumCulled = false;
    if (isFloor) mesh.position.set(...model.geom_pos.slice(3 * geom, 3 * geom + 3));
    return mesh;
  }
}

/** Return a geom's shape; MuJoCo's cylinders stand along z, those of three.js along y. */
function geometryOf(model, geom) {
  const [a, b, c] = model.geom_size.slice(3 * geom, 3 * geom + 3);
  switch (model.geom_type[geom]) {
    case GEOM.plane:
      return new THREE.PlaneGeometry(2 * FLOOR, 2 * FLOOR);
    case GEOM.sphere:
      return new THREE.SphereGeometry(a, 32, 20);
    case GEOM.capsule:
      return new THREE.CapsuleGeometry(a, 2 * b, 12, 28).rotateX(Math.PI / 2);
    case GEOM.ellipsoid:
      return new THREE.SphereGeometry(1, 32, 20).scale(a, b, c);
    case GEOM.cylinder:
      return new THREE.CylinderGeometry(a, a, 2 * b, 32).rotateX(Math.PI / 2);
    case GEOM.box:
      return new THREE.BoxGeometry(2 * a, 2 * b, 2 * c);
    case GEOM.mesh:
      return meshOf(model, model.geom_dataid[geom]);
    default:
      return null;
  }
}

function meshOf(model, mesh) {
  const shape = new THREE.BufferGeometry();
  const start = 3 * model.mesh_vertadr[mesh];
  const first = 3 * model.mesh_faceadr[mesh];
  const corners = model.mesh_vert.slice(start, start + 3 * model.mesh_vertnum[mesh]);
  const faces = model.mesh_face.slice(first, first + 3 * model.mesh_facenum[mesh]);
  shape.setAttribute("position", new THREE.BufferAttribute(Float32Array.from(corners), 3));
  shape.setIndex([...faces]);
  shape.computeVertexNormals();
  return shape;
}

/** Return tiles of half a metre, as MuJoCo's checker. */
function tiles() {
  const picture = document.createElement("canvas");
  picture.width = picture.height = 64;
  const brush = picture.getContext("2d");
  brush.fillStyle = "#c3c9cf";
  brush.fillRect(0, 0, 64, 64);
  brush.fillStyle = "#b3bac1";
  brush.fillRect(0, 0, 32, 32);
  brush.fillRect(32, 32, 32, 32);
  const texture = new THREE.CanvasTexture(picture);
  texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
  texture.repeat.set(2 * FLOOR, 2 * FLOOR);
  texture.colorSpace = THREE.SRGBColorSpace;
  texture.anisotropy = 8;
  return texture;
}
