/* A libnvidia-ml.so.1 without cards: what it answers stands in a file that the test maps too (script.py has the same
 * layout). Power is linear between the points of a curve, so the energy of every span is known exactly. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9 };
enum { MAX_GPUS = 8, MAX_POINTS = 4096, MAX_FAULTS = 8, NAME = 96 };
enum { CALL_POWER = 1, CALL_COUNTER = 2, CALL_REST = 4 };

typedef struct { double at_s, power_w, memory_bytes, utilisation; } point;
typedef struct { double from_s, to_s; uint32_t code, calls; } fault;
typedef struct {
  char uuid[NAME], instance[NAME]; /* instance: the UUID of a MIG device on it, or nothing */
  uint32_t minor, mig, counts, points;
  double window_s, period_s;  /* each period_s the mean power of the window_s before is shown; 0: the true power */
  double counter_j, wrap_j;   /* the counter's value at time 0; where it starts from 0 again, 0: nowhere */
  double resets_s[MAX_FAULTS]; /* from these times on it counts from 0; 0: none */
  fault faults[MAX_FAULTS];
  point curve[MAX_POINTS];
} gpu;
typedef struct {
  double now_s;            /* the time; below 0: CLOCK_BOOTTIME less origin_s */
  double origin_s;
  double unloaded_s[2];    /* the driver is gone from..to */
  uint32_t gpus, calls;    /* calls: how many were answered */
  gpu gpu[MAX_GPUS];
} script;
typedef struct device { int index, instance; } device;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int gpu, memory; } rates;

static script *told;
static double opened_s = -1;
static device devices[2 * MAX_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void) {
  struct timespec t;
  if (told->now_s >= 0) return told->now_s;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - told->origin_s;
}

static point at(const gpu *g, double t) {
  const point *p = g->curve;
  unsigned n = 0;
  while (n < g->points && p[n].at_s <= t) n++;
  if (n == 0) return p[0];
  point before = p[n - 1];
  if (n < g->points)
    before.power_w += (p[n].power_w - before.power_w) * (t - before.at_s) / (p[n].at_s - before.at_s);
  return before;
}

/* Joules from time 0 to t. */
static double energy(const gpu *g, double t) {
  const point *p = g->curve;
  double sum = 0;
  for (unsigned n = 0; n < g->points && p[n].at_s < t; n++) {
    double end = n + 1 < g->points && p[n + 1].at_s < t ? p[n + 1].at_s : t;
    /* up to the next point the curve is a line; at a step the line ends before it */
    double slope = n + 1 < g->points && p[n + 1].at_s > p[n].at_s
                       ? (p[n + 1].power_w - p[n].power_w) / (p[n + 1].at_s - p[n].at_s) : 0;
    double span = end - p[n].at_s;
    sum += span * (p[n].power_w + 0.5 * slope * span);
  }
  return sum;
}

static int driver_gone(double t) { return t >= told->unloaded_s[0] && t < told->unloaded_s[1]; }

static int trouble(const gpu *g, uint32_t call) {
  double t = now();
  told->calls++;
  /* Who had it open before the driver went must open it again. */
  if (opened_s < 0 || driver_gone(t) || (opened_s < told->unloaded_s[0] && t >= told->unloaded_s[0] && told->unloaded_s[1] > 0))
    return UNINITIALIZED;
  for (int n = 0; g && n < MAX_FAULTS; n++)
    if ((g->faults[n].calls & call) && t >= g->faults[n].from_s && t < g->faults[n].to_s) return (int)g->faults[n].code;
  return SUCCESS;
}

static gpu *of(const device *d) { return &told->gpu[d->index]; }

int nvmlInitWithFlags(unsigned int flags) {
  (void)flags;
  pthread_mutex_lock(&lock);
  /* Anew each time: one process of tests reads many scripts. */
  if (told) munmap(told, sizeof(script));
  const char *path = getenv("FAKE_NVML");
  int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(script), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  told = map == MAP_FAILED ? NULL : map;
  for (int n = 0; n < 2 * MAX_GPUS; n++) devices[n] = (device){n % MAX_GPUS, n >= MAX_GPUS};
  int code = !told || driver_gone(now()) ? DRIVER_NOT_LOADED : SUCCESS;
  if (code == SUCCESS) opened_s = now();
  pthread_mutex_unlock(&lock);
  return code;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { opened_s = -1; return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "scripted"; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
  int code = trouble(NULL, CALL_REST);
  if (code == SUCCESS) *count = told->gpus;
  return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device **handle) {
  int code = trouble(NULL, CALL_REST);
  if (code != SUCCESS) return code;
  if (index >= told->gpus) return INVALID_ARGUMENT;
  *handle = &devices[index];
  return trouble(of(*handle), CALL_REST);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device **handle) {
  int code = trouble(NULL, CALL_REST);
  for (unsigned n = 0; code == SUCCESS && n < told->gpus; n++) {
    int instance = told->gpu[n].instance[0] && !strcmp(uuid, told->gpu[n].instance);
    if (!instance && strcmp(uuid, told->gpu[n].uuid)) continue;
    *handle = &devices[n + (instance ? MAX_GPUS : 0)];
    return trouble(of(*handle), CALL_REST);
  }
  return code == SUCCESS ? NOT_FOUND : code;
}

int nvmlDeviceGetUUID(device *d, char *uuid, unsigned int size) {
  int code = trouble(of(d), CALL_REST);
  const char *name = d->instance ? of(d)->instance : of(d)->uuid;
  if (code == SUCCESS) { strncpy(uuid, name, size - 1); uuid[size - 1] = 0; }
  return code;
}

int nvmlDeviceGetMinorNumber(device *d, unsigned int *minor) {
  int code = trouble(of(d), CALL_REST);
  if (code == SUCCESS) *minor = of(d)->minor;
  return code;
}

int nvmlDeviceGetMigMode(device *d, unsigned int *current, unsigned int *pending) {
  int code = trouble(of(d), CALL_REST);
  if (code == SUCCESS) *current = *pending = of(d)->mig;
  return code;
}

int nvmlDeviceGetPowerUsage(device *d, unsigned int *milliwatts) {
  const gpu *g = of(d);
  int code = trouble(g, CALL_POWER);
  double t = now();
  if (code != SUCCESS) return code;
  if (d->instance) return NOT_SUPPORTED;
  if (g->period_s > 0) {
    double shown = g->period_s * (double)(long long)(t / g->period_s), begin = shown - g->window_s;
    if (begin < 0) begin = 0;
    *milliwatts = (unsigned)(1000 * (shown > begin ? (energy(g, shown) - energy(g, begin)) / (shown - begin) : at(g, t).power_w));
  } else {
    *milliwatts = (unsigned)(1000 * at(g, t).power_w);
  }
  return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(device *d, unsigned long long *millijoules) {
  const gpu *g = of(d);
  int code = trouble(g, CALL_COUNTER);
  double t = now(), joules = g->counter_j + energy(g, t);
  if (code != SUCCESS) return code;
  if (!g->counts || d->instance) return NOT_SUPPORTED;
  for (int n = 0; n < MAX_FAULTS; n++)
    if (g->resets_s[n] > 0 && t >= g->resets_s[n]) joules = energy(g, t) - energy(g, g->resets_s[n]);
  if (g->wrap_j > 0) joules -= g->wrap_j * (double)(long long)(joules / g->wrap_j);
  *millijoules = (unsigned long long)(1000 * joules);
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(device *d, memory *m) {
  int code = trouble(of(d), CALL_REST);
  if (code == SUCCESS) {
    m->total = 80ull << 30;
    m->used = (unsigned long long)at(of(d), now()).memory_bytes;
    m->free = m->total - m->used;
  }
  return code;
}

int nvmlDeviceGetUtilizationRates(device *d, rates *r) {
  int code = trouble(of(d), CALL_REST);
  if (code == SUCCESS && d->instance) return NOT_SUPPORTED;
  if (code == SUCCESS) *r = (rates){(unsigned)(100 * at(of(d), now()).utilisation), 0};
  return code;
}
