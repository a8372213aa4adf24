// All intersecting triangle pairs of two deforming bodies with Embree, at its best: the trees are refitted, rtcCollide
// finds the pairs whose boxes overlap, each is tested in the callback (which Embree runs on its threads), and the keys
// of those that meet are sorted. Called through ctypes by embree.py; works with Embree 3 and 4.
//
// Boxes are floats rounded outwards; the triangle test is that of Guigue and Devillers in plain doubles, the same as
// triangle_test_kernels.py: no coplanar case, wrong on touching and degenerate pairs.

#if __has_include(<embree4/rtcore.h>)
#include <embree4/rtcore.h>
#else
#include <embree3/rtcore.h>
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

namespace {

struct Vec {
  double x, y, z;
};

inline Vec minus(const Vec& a, const Vec& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline Vec cross(const Vec& a, const Vec& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
inline double dot(const Vec& a, const Vec& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

// Put the corner that is alone on its side of the other's plane first, keeping the order.
inline void put_lone_corner_first(Vec& p, Vec& q, Vec& r, double& sp, double sq, double sr) {
  if ((sp > 0.0) == (sq > 0.0)) {
    const Vec t = r;
    r = q, q = p, p = t, sp = sr;
  } else if ((sp > 0.0) == (sr > 0.0)) {
    const Vec t = p;
    p = q, q = r, r = t, sp = sq;
  }
}

bool triangles_meet(Vec p1, Vec q1, Vec r1, Vec p2, Vec q2, Vec r2) {
  const Vec n2 = cross(minus(p2, r2), minus(q2, r2));
  double sp1 = dot(n2, minus(p1, r2)), sq1 = dot(n2, minus(q1, r2)), sr1 = dot(n2, minus(r1, r2));
  if ((sp1 > 0.0 && sq1 > 0.0 && sr1 > 0.0) || (sp1 < 0.0 && sq1 < 0.0 && sr1 < 0.0)) return false;
  const Vec n1 = cross(minus(p1, r1), minus(q1, r1));
  double sp2 = dot(n1, minus(p2, r1)), sq2 = dot(n1, minus(q2, r1)), sr2 = dot(n1, minus(r2, r1));
  if ((sp2 > 0.0 && sq2 > 0.0 && sr2 > 0.0) || (sp2 < 0.0 && sq2 < 0.0 && sr2 < 0.0)) return false;
  put_lone_corner_first(p1, q1, r1, sp1, sq1, sr1);
  put_lone_corner_first(p2, q2, r2, sp2, sq2, sr2);
  if (sp1 < 0.0) std::swap(q2, r2);
  if (sp2 < 0.0) std::swap(q1, r1);
  return dot(cross(minus(p2, q1), minus(p1, q1)), minus(q2, q1)) <= 0.0 &&
         dot(cross(minus(p2, p1), minus(r1, p1)), minus(r2, p1)) <= 0.0;
}

struct Body {
  const Vec* x = nullptr;  // the caller's positions, not copied
  const int32_t* face = nullptr;
  unsigned count = 0;
  RTCScene scene = nullptr;
  RTCGeometry geometry = nullptr;

  const Vec& corner(unsigned t, int k) const { return x[face[3 * t + k]]; }
};

inline float round_down(double v) {
  const float f = static_cast<float>(v);
  return f > v ? std::nextafterf(f, -std::numeric_limits<float>::infinity()) : f;
}
inline float round_up(double v) {
  const float f = static_cast<float>(v);
  return f < v ? std::nextafterf(f, std::numeric_limits<float>::infinity()) : f;
}

void fit_triangle(const RTCBoundsFunctionArguments* args) {
  const Body& body = *static_cast<const Body*>(args->geometryUserPtr);
  const Vec &p = body.corner(args->primID, 0), &q = body.corner(args->primID, 1), &r = body.corner(args->primID, 2);
  RTCBounds& box = *args->bounds_o;
  box.lower_x = round_down(std::min({p.x, q.x, r.x}));
  box.lower_y = round_down(std::min({p.y, q.y, r.y}));
  box.lower_z = round_down(std::min({p.z, q.z, r.z}));
  box.upper_x = round_up(std::max({p.x, q.x, r.x}));
  box.upper_y = round_up(std::max({p.y, q.y, r.y}));
  box.upper_z = round_up(std::max({p.z, q.z, r.z}));
}

constexpr unsigned kSlots = 256;
std::atomic<unsigned> next_slot{0};

struct alignas(64) Slot {
  std::vector<uint64_t> key;
};

struct Pair {
  RTCDevice device = nullptr;
  Body a, b;
  std::vector<Slot> slot = std::vector<Slot>(kSlots);  // one for each thread
  std::vector<uint64_t> key;                           // face of a, face of b: sorted
  std::atomic<bool> too_many_threads{false};
};

void test_candidates(void* user, RTCCollision* found, unsigned count) {
  Pair& pair = *static_cast<Pair*>(user);
  thread_local const unsigned mine = next_slot++;
  if (mine >= kSlots) {
    pair.too_many_threads = true;
    return;
  }
  std::vector<uint64_t>& key = pair.slot[mine].key;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned s = found[i].primID0, t = found[i].primID1;
    if (triangles_meet(pair.a.corner(s, 0), pair.a.corner(s, 1), pair.a.corner(s, 2), pair.b.corner(t, 0),
                       pair.b.corner(t, 1), pair.b.corner(t, 2)))
      key.push_back(static_cast<uint64_t>(s) << 32 | t);
  }
}

void attach(RTCDevice device, Body& body) {
  body.geometry = rtcNewGeometry(device, RTC_GEOMETRY_TYPE_USER);
  rtcSetGeometryUserPrimitiveCount(body.geometry, body.count);
  rtcSetGeometryUserData(body.geometry, &body);
  rtcSetGeometryBoundsFunction(body.geometry, fit_triangle, nullptr);
  rtcSetGeometryBuildQuality(body.geometry, RTC_BUILD_QUALITY_REFIT);
  rtcCommitGeometry(body.geometry);
  body.scene = rtcNewScene(device);
  rtcSetSceneFlags(body.scene, RTC_SCENE_FLAG_DYNAMIC);
  rtcSetSceneBuildQuality(body.scene, RTC_BUILD_QUALITY_LOW);  // the only one in which geometries are refitted
  rtcAttachGeometry(body.scene, body.geometry);
  rtcCommitScene(body.scene);
}

void refit(Body& body, const double* x) {
  body.x = reinterpret_cast<const Vec*>(x);
  rtcCommitGeometry(body.geometry);
  rtcCommitScene(body.scene);
}

void release(Body& body) {
  if (body.geometry) rtcReleaseGeometry(body.geometry);
  if (body.scene) rtcReleaseScene(body.scene);
}

}  // namespace

extern "C" {

int impinge_embree_version() { return RTC_VERSION; }

void impinge_embree_free(void* handle) {
  Pair* pair = static_cast<Pair*>(handle);
  release(pair->a);
  release(pair->b);
  if (pair->device) rtcReleaseDevice(pair->device);
  delete pair;
}

// Null if Embree reports an error. Positions and faces must outlive the handle or the next update.
void* impinge_embree_new(const double* x_a, const int32_t* face_a, int count_a, const double* x_b,
                         const int32_t* face_b, int count_b) {
  Pair* pair = new (std::nothrow) Pair;
  if (!pair) return nullptr;
  pair->device = rtcNewDevice(nullptr);
  if (!pair->device) {
    delete pair;
    return nullptr;
  }
  pair->a.x = reinterpret_cast<const Vec*>(x_a), pair->a.face = face_a, pair->a.count = count_a;
  pair->b.x = reinterpret_cast<const Vec*>(x_b), pair->b.face = face_b, pair->b.count = count_b;
  attach(pair->device, pair->a);
  attach(pair->device, pair->b);
  if (rtcGetDeviceError(pair->device) != RTC_ERROR_NONE) {
    impinge_embree_free(pair);
    return nullptr;
  }
  return pair;
}

void impinge_embree_update(void* handle, const double* x_a, const double* x_b) {
  Pair* pair = static_cast<Pair*>(handle);
  refit(pair->a, x_a);
  refit(pair->b, x_b);
}

// The number of pairs, or -1 if Embree reports an error or has more threads than there are buffers.
int64_t impinge_embree_query(void* handle) {
  Pair* pair = static_cast<Pair*>(handle);
  for (Slot& slot : pair->slot) slot.key.clear();
  rtcCollide(pair->a.scene, pair->b.scene, test_candidates, pair);
  if (rtcGetDeviceError(pair->device) != RTC_ERROR_NONE || pair->too_many_threads) return -1;
  pair->key.clear();
  for (const Slot& slot : pair->slot) pair->key.insert(pair->key.end(), slot.key.begin(), slot.key.end());
  std::sort(pair->key.begin(), pair->key.end());
  return static_cast<int64_t>(pair->key.size());
}

void impinge_embree_pairs(void* handle, int32_t* out) {
  for (const uint64_t key : static_cast<Pair*>(handle)->key) {
    *out++ = static_cast<int32_t>(key >> 32);
    *out++ = static_cast<int32_t>(key & 0xffffffffu);
  }
}

}  // extern "C"
