/* ScaLAPACK's redistribution, timed as the benchmark's Rust side times its own.
 *
 *   mpirun -n RANKS pgemr2d FROM TO N RUNS          FROM and TO as 2x2: ranks over rows x ranks over columns
 *
 * Moves an N x N matrix of doubles from one grid of ranks to another, one block per rank: with Cpdgemr2d, and with one
 * MPI_Alltoallw over derived datatypes, in turns. Prints, per timed run, the seconds from the first rank's start to the last rank's end, after a barrier and one run that
 * is not timed:
 *
 *   record seconds mpi 4x1-1x4 f64 4096 pdgemr2d 1.234
 *   record seconds mpi 4x1-1x4 f64 4096 alltoallw 1.234
 *
 * The ranks read one clock, so they must be on one machine. The Rust side's tiles are row-major and ScaLAPACK's
 * column-major, so what is moved here is the transpose: each rank's tile is then the same bytes in memory on both
 * sides, before and after. The elements are made from their global index, and are checked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void Cblacs_gridexit(int context);
int numroc_(const int *n, const int *block, const int *process, const int *source, const int *processes);
void descinit_(int *descriptor, const int *rows, const int *columns, const int *row_block, const int *column_block,
               const int *source_row, const int *source_column, const int *context, const int *leading, int *info);
void Cpdgemr2d(int rows, int columns, double *a, int ia, int ja, int *desc_a, double *b, int ib, int jb, int *desc_b,
               int context);

/* A matrix dealt out in one block per rank: this rank's tile is the rows and columns from `row` and `column` on. */
struct matrix {
  int context, descriptor[9];
  int height, width, row, column;
  double *tile;
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void stop(const char *message) {
  fprintf(stderr, "pgemr2d: %s\n", message);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* `over_rows` and `over_columns` are of the row-major matrix, whose transpose this is. */
static struct matrix make(int over_rows, int over_columns, int n) {
  struct matrix m;
  int rows = over_columns, columns = over_rows, my_row, my_column, info;
  const int zero = 0;
  Cblacs_get(-1, 0, &m.context);
  /* The Rust side numbers its ranks along columns of its matrix first, which are rows here. */
  Cblacs_gridinit(&m.context, "Col", rows, columns);
  Cblacs_gridinfo(m.context, &rows, &columns, &my_row, &my_column);
  int row_block = (n + rows - 1) / rows, column_block = (n + columns - 1) / columns;
  m.height = numroc_(&n, &row_block, &my_row, &zero, &rows);
  m.width = numroc_(&n, &column_block, &my_column, &zero, &columns);
  m.row = my_row * row_block;
  m.column = my_column * column_block;
  int leading = m.height > 1 ? m.height : 1;
  descinit_(m.descriptor, &n, &n, &row_block, &column_block, &zero, &zero, &m.context, &leading, &info);
  if (info != 0) stop("descinit refuses the layout");
  m.tile = calloc((size_t)leading * (size_t)(m.width > 1 ? m.width : 1), sizeof(double));
  if (!m.tile) stop("out of memory");
  return m;
}

/* The piece that rank `rank` has of `theirs`, a matrix on this grid of rows x columns, of what this rank has of `mine`. */
static MPI_Datatype piece(const struct matrix *mine, const int grid[2], int n, int rank, int *count) {
  int rows = grid[1], columns = grid[0], row_block = (n + rows - 1) / rows, column_block = (n + columns - 1) / columns;
  int row = rank % rows * row_block, column = rank / rows * column_block;
  int row_end = row + row_block < n ? row + row_block : n, column_end = column + column_block < n ? column + column_block : n;
  int top = row > mine->row ? row : mine->row, left = column > mine->column ? column : mine->column;
  int bottom = row_end < mine->row + mine->height ? row_end : mine->row + mine->height;
  int right = column_end < mine->column + mine->width ? column_end : mine->column + mine->width;
  *count = bottom > top && right > left;
  if (!*count) return MPI_DOUBLE;
  int sizes[2] = {mine->width, mine->height}, counts[2] = {right - left, bottom - top};
  int starts[2] = {left - mine->column, top - mine->row};
  MPI_Datatype type;
  MPI_Type_create_subarray(2, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

/* The same move by one call of MPI, whose types are made before. */
static double timed_alltoallw(const struct matrix *from, const struct matrix *to, int *counts[2], const int *starts,
                              MPI_Datatype *types[2]) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = now();
  MPI_Alltoallw(from->tile, counts[0], starts, types[0], to->tile, counts[1], starts, types[1], MPI_COMM_WORLD);
  double end = now(), begun, ended;
  MPI_Allreduce(&start, &begun, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&end, &ended, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return ended - begun;
}

static double element(int row, int column, int n) { return (double)column * n + row; }

static double timed(int n, struct matrix *from, struct matrix *to) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = now();
  /* Both grids have all ranks, so either context serves for the two. */
  Cpdgemr2d(n, n, from->tile, 1, 1, from->descriptor, to->tile, 1, 1, to->descriptor, from->context);
  double end = now(), begun, ended;
  MPI_Allreduce(&start, &begun, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&end, &ended, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return ended - begun;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size, from[2], to[2];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 5 || sscanf(argv[1], "%dx%d", &from[0], &from[1]) != 2 || sscanf(argv[2], "%dx%d", &to[0], &to[1]) != 2)
    stop("usage: pgemr2d FROM TO N RUNS, with FROM and TO as 2x2");
  int n = atoi(argv[3]), runs = atoi(argv[4]);
  if (from[0] < 1 || to[0] < 1 || from[0] * from[1] != size || to[0] * to[1] != size)
    stop("start it on as many ranks as each grid has");
  if (n < 1 || runs < 1) stop("N and RUNS are at least 1");

  struct matrix source = make(from[0], from[1], n), target = make(to[0], to[1], n);
  for (int j = 0; j < source.width; j++)
    for (int i = 0; i < source.height; i++)
      source.tile[(size_t)j * (size_t)source.height + (size_t)i] = element(source.row + i, source.column + j, n);
  int *counts[2], *starts = calloc((size_t)size, sizeof(int));
  MPI_Datatype *types[2];
  for (int side = 0; side < 2; side++) {
    counts[side] = calloc((size_t)size, sizeof(int));
    types[side] = calloc((size_t)size, sizeof(MPI_Datatype));
    if (!counts[side] || !types[side] || !starts) stop("out of memory");
    for (int other = 0; other < size; other++)
      types[side][other] = piece(side ? &target : &source, side ? from : to, n, other, &counts[side][other]);
  }
  for (int way = 0; way < 2; way++) {
    if (way)
      timed_alltoallw(&source, &target, counts, starts, types);
    else
      timed(n, &source, &target);
    for (int j = 0; j < target.width; j++)
      for (int i = 0; i < target.height; i++) {
        double *found = &target.tile[(size_t)j * (size_t)target.height + (size_t)i];
        if (*found != element(target.row + i, target.column + j, n)) stop("the matrix arrives wrong");
        *found = -1;
      }
  }
  for (int run = 0; run < runs; run++) {
    double seconds[2];
    seconds[0] = timed(n, &source, &target);
    seconds[1] = timed_alltoallw(&source, &target, counts, starts, types);
    for (int way = 0; way < 2 && rank == 0; way++)
      printf("record seconds mpi %dx%d-%dx%d f64 %d %s %.9f\n", from[0], from[1], to[0], to[1], n,
             way ? "alltoallw" : "pdgemr2d", seconds[way]);
  }
  free(starts);
  for (int side = 0; side < 2; side++) {
    free(counts[side]);
    free(types[side]);
  }
  free(source.tile);
  free(target.tile);
  Cblacs_gridexit(source.context);
  Cblacs_gridexit(target.context);
  MPI_Finalize();
  return 0;
}
