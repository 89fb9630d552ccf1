/* ScaLAPACK's distributed matrix product, timed as the benchmark's Rust side times its own.
 *
 *   mpirun -n ROWS*COLUMNS pgemm ROWS COLUMNS f32|f64 N RUNS BLOCK..
 *
 * C += A * B for N x N matrices on a grid of ROWS x COLUMNS ranks, block-cyclic in square blocks of each size BLOCK
 * in turn. Prints the kernel that OpenBLAS has chosen for the processor, and how it was built:
 *
 *   kernel OpenBLAS SkylakeX (OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY SkylakeX SINGLE_THREADED)
 *
 * then, per block size and timed run, the seconds from the first rank's start to the last rank's end,
 * after a barrier and one run that is not timed:
 *
 *   record seconds mpi 2x2 f64 4096 scalapack(256) 1.234
 *
 * A BLOCK of 0 is OpenBLAS itself on one rank: what is timed is then its core, whoever else uses the machine.
 *
 *   record core leaf - f64 4096 openblas(SkylakeX) 1.234
 *
 * The ranks read one clock, so they must be on one machine. The matrices are those of the Rust side: of rank one
 * and of small integers, so that the result is exact and is checked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void Cblacs_gridexit(int context);
char *openblas_get_corename(void);
char *openblas_get_config(void);
int numroc_(const int *n, const int *block, const int *process, const int *source, const int *processes);
void descinit_(int *descriptor, const int *rows, const int *columns, const int *row_block, const int *column_block,
               const int *source_row, const int *source_column, const int *context, const int *leading, int *info);

#define PGEMM(name, type)                                                                                           \
  void name(const char *turn_a, const char *turn_b, const int *m, const int *n, const int *k, const type *alpha,    \
            const type *a, const int *ia, const int *ja, const int *desc_a, const type *b, const int *ib,           \
            const int *jb, const int *desc_b, const type *beta, type *c, const int *ic, const int *jc,              \
            const int *desc_c)
PGEMM(psgemm_, float);
PGEMM(pdgemm_, double);

#define GEMM(name, type)                                                                                            \
  void name(const char *turn_a, const char *turn_b, const int *m, const int *n, const int *k, const type *alpha,    \
            const type *a, const int *leading_a, const type *b, const int *leading_b, const type *beta, type *c,    \
            const int *leading_c)
GEMM(sgemm_, float);
GEMM(dgemm_, double);

static double seconds_of(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double now(void) { return seconds_of(CLOCK_REALTIME); }

static void stop(const char *message) {
  fprintf(stderr, "pgemm: %s\n", message);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The factors of a and b: a(m, k) = row(m) * first(k), b(k, n) = second(k) * column(n). */
static int row(int m) { return m % 5; }
static int first(int k) { return k * 7 % 11 - 4; }
static int second(int k) { return k * 3 % 11 - 4; }
static int column(int n) { return n % 3 + 1; }

/* The global index of local index i, where blocks go to the processes in turn. */
static int global(int i, int block, int process, int processes) {
  return (i / block * processes + process) * block + i % block;
}

static void set(void *data, int is_double, size_t i, int value) {
  if (is_double) ((double *)data)[i] = value;
  else ((float *)data)[i] = (float)value;
}

static double get(const void *data, int is_double, size_t i) {
  return is_double ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static double timed(int is_double, int n, const void *a, const void *b, void *c, const int *descriptor) {
  const int one = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  double start = now();
  if (is_double) {
    const double unit = 1;
    pdgemm_("N", "N", &n, &n, &n, &unit, a, &one, &one, descriptor, b, &one, &one, descriptor, &unit, c, &one, &one,
            descriptor);
  } else {
    const float unit = 1;
    psgemm_("N", "N", &n, &n, &n, &unit, a, &one, &one, descriptor, b, &one, &one, descriptor, &unit, c, &one, &one,
            descriptor);
  }
  double end = now(), begun, ended;
  MPI_Allreduce(&start, &begun, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&end, &ended, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return ended - begun;
}

static double alone(int is_double, int n, const void *a, const void *b, void *c) {
  double start = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  if (is_double) {
    const double unit = 1;
    dgemm_("N", "N", &n, &n, &n, &unit, a, &n, b, &n, &unit, c, &n);
  } else {
    const float unit = 1;
    sgemm_("N", "N", &n, &n, &n, &unit, a, &n, b, &n, &unit, c, &n);
  }
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - start;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 7) stop("usage: pgemm ROWS COLUMNS f32|f64 N RUNS BLOCK..");
  int rows = atoi(argv[1]), columns = atoi(argv[2]), n = atoi(argv[4]), runs = atoi(argv[5]);
  const char *type = argv[3];
  int is_double = strcmp(type, "f64") == 0;
  if (!is_double && strcmp(type, "f32") != 0) stop("the type is f32 or f64");
  if (rows < 1 || columns < 1 || rows * columns != size) stop("start it on ROWS * COLUMNS ranks");
  if (n < 1 || runs < 1) stop("N and RUNS are at least 1");

  if (rank == 0) printf("kernel OpenBLAS %s (%s)\n", openblas_get_corename(), openblas_get_config());

  int context, my_row, my_column;
  const int zero = 0;
  Cblacs_get(-1, 0, &context);
  Cblacs_gridinit(&context, "Row", rows, columns);
  Cblacs_gridinfo(context, &rows, &columns, &my_row, &my_column);
  size_t element = is_double ? sizeof(double) : sizeof(float);
  for (int nth = 6; nth < argc; nth++) {
    int block = atoi(argv[nth]), descriptor[9], info;
    int is_alone = block == 0;
    if (is_alone && size != 1) stop("a BLOCK of 0 is for one rank");
    if (is_alone) block = n;
    if (block < 1) stop("a BLOCK is at least 0");
    int height = numroc_(&n, &block, &my_row, &zero, &rows);
    int width = numroc_(&n, &block, &my_column, &zero, &columns);
    int leading = height > 1 ? height : 1;
    descinit_(descriptor, &n, &n, &block, &block, &zero, &zero, &context, &leading, &info);
    if (info != 0) stop("descinit refuses the layout");
    size_t count = (size_t)leading * (size_t)(width > 1 ? width : 1);
    void *a = malloc(count * element), *b = malloc(count * element), *c = calloc(count, element);
    if (!a || !b || !c) stop("out of memory");
    for (int j = 0; j < width; j++) {
      int at_column = global(j, block, my_column, columns);
      for (int i = 0; i < height; i++) {
        int at_row = global(i, block, my_row, rows);
        size_t at = (size_t)j * (size_t)leading + (size_t)i;
        set(a, is_double, at, row(at_row) * first(at_column));
        set(b, is_double, at, second(at_row) * column(at_column));
      }
    }
    for (int run = -1; run < runs; run++) {
      double seconds = is_alone ? alone(is_double, n, a, b, c) : timed(is_double, n, a, b, c, descriptor);
      if (run >= 0 && is_alone)
        printf("record core leaf - %s %d openblas(%s) %.9f\n", type, n, openblas_get_corename(), seconds);
      else if (run >= 0 && rank == 0)
        printf("record seconds mpi %dx%d %s %d scalapack(%d) %.9f\n", rows, columns, type, n, block, seconds);
    }
    long sum = 0;
    for (int k = 0; k < n; k++) sum += (long)first(k) * second(k);
    for (int j = 0; j < width; j++) {
      int factor = column(global(j, block, my_column, columns));
      for (int i = 0; i < height; i++) {
        double expected = (double)(runs + 1) * (double)sum * row(global(i, block, my_row, rows)) * factor;
        if (get(c, is_double, (size_t)j * (size_t)leading + (size_t)i) != expected) stop("the product is wrong");
      }
    }
    free(a);
    free(b);
    free(c);
  }
  Cblacs_gridexit(context);
  MPI_Finalize();
  return 0;
}
