/* The C kit: makes a function of yours a workload that `oscope run --workload ./program` measures.
 *
 *     #include "oscope.h"
 *
 *     static void *buffer;
 *     static void prepare(struct oscope_point *point) { buffer = malloc(oscope_integer(point, "size")); }
 *     static void iterate(struct oscope_point *point, uint64_t iterations)
 *     {
 *         for (uint64_t i = 0; i < iterations; i++)
 *             memset(buffer, 0, oscope_integer(point, "size"));
 *     }
 *     ...
 *     int main(int argc, char **argv) { return oscope_main(argc, argv, workloads, 1); }
 *
 * One header, C11, Linux, no library beyond libc. Include it in one file of the program. The whole example is
 * example.c beside it; docs/own-workloads.md says what the program answers (`oscope.probe/1`).
 *
 * Licensed as Oscope is: MIT or Apache-2.0. */
#ifndef OSCOPE_H
#define OSCOPE_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before any #include: the kit pins its thread to a CPU"
#endif

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* --- What a program declares ---------------------------------------------------------------------------- */

enum oscope_type {
    OSCOPE_INTEGER,  /* a whole number */
    OSCOPE_BYTES,    /* a size: 4K and 1MiB are understood on the command line */
    OSCOPE_DURATION, /* seconds: 10ms and 2s are understood on the command line */
    OSCOPE_BOOLEAN,  /* 0 or 1 */
    OSCOPE_CHOICE,   /* one of the texts of `choices`, separated by blanks */
    OSCOPE_PATH,     /* a path, absolute; empty: none is given */
};

struct oscope_parameter {
    const char *name;
    enum oscope_type type;
    double number;       /* default of a number, size, duration or boolean */
    const char *text;    /* default of a choice or path */
    const char *choices; /* "read write": of a choice */
    const char *doc;
};

struct oscope_metric {
    const char *name;
    const char *unit;
    const char *better; /* "less", "more", or NULL: shown, and not compared */
    const char *doc;
};

struct oscope_point;

struct oscope_workload {
    const char *name; /* letters, digits, dots: stored runs know the workload by it */
    const char *purpose;
    int version;    /* 0 is 1; raise it when the meaning of a figure changes */
    bool threads;   /* it has threads of its own, which may take the measuring thread's CPU */
    const struct oscope_parameter *parameters; /* ends with one whose name is NULL; NULL: none */
    const struct oscope_metric *metrics;       /* besides time_ns; ends like the parameters */
    void (*prepare)(struct oscope_point *point);                       /* may be NULL */
    void (*iterate)(struct oscope_point *point, uint64_t iterations); /* the measured region */
    void (*check)(struct oscope_point *point);  /* after each repetition, unmeasured; may be NULL */
    void (*cleanup)(struct oscope_point *point); /* may be NULL */
};

/* Levels of the point being measured. A name that is not declared ends the program: it is a mistake in it. */
static int64_t oscope_integer(const struct oscope_point *point, const char *name); /* size and boolean too */
static double oscope_seconds(const struct oscope_point *point, const char *name);
static const char *oscope_text(const struct oscope_point *point, const char *name);

/* What a repetition gave: call it from `check` (or `iterate`) for each metric declared. */
static void oscope_metric(struct oscope_point *point, const char *name, double value);
/* The repetition went wrong: its sample counts as failed, with this reason. From `iterate` or `check`. */
static void oscope_fail(struct oscope_point *point, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The point cannot be measured on this machine; it is shown as skipped, with how to fix it. From `prepare`. */
static void oscope_unavailable(struct oscope_point *point, const char *reason, const char *remedy);

/* Keeps the compiler from leaving out what computes `value`. */
#define oscope_use(value) __asm__ volatile("" : : "g"(value) : "memory")
/* Keeps the compiler from knowing what is in the variable `value`, a number or a pointer, from here on. */
#define oscope_opaque(value) __asm__ volatile("" : "+r"(value))

/* Marks of the measured region, for tracers: `token` is the request's id, 0 in warm-up and calibration. */
__attribute__((noinline, used, visibility("default"))) void oscope_region_begin(uint64_t token)
{
    __asm__ volatile("" : : "r"(token) : "memory");
}
__attribute__((noinline, used, visibility("default"))) void oscope_region_end(uint64_t token)
{
    __asm__ volatile("" : : "r"(token) : "memory");
}

/* --- What follows is the kit's own ---------------------------------------------------------------------- */

#define OSCOPE_SCHEMA "oscope.probe/1"
#define OSCOPE_MOST 64 /* parameters or metrics of a workload */
#define OSCOPE_READINGS 2001
#define OSCOPE_MOST_ITERATIONS ((uint64_t)1 << 40)
#define OSCOPE_COVARIATES 7

struct oscope_level {
    double number;
    char *text;
};

struct oscope_point {
    const struct oscope_workload *workload;
    struct oscope_level levels[OSCOPE_MOST];
    double metrics[OSCOPE_MOST];
    char failed[256];
    char unavailable[256];
    char remedy[256];
};

struct oscope_clock {
    double overhead, deviation; /* ns: of one reading, median and median absolute deviation */
};

static volatile sig_atomic_t oscope_ended;
static volatile sig_atomic_t oscope_idle; /* waits for a request, and has nothing to undo */
static FILE *oscope_out;

static void oscope_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void oscope_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static void *oscope_allocate(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (memory == NULL)
        oscope_die("no memory for %zu bytes", size);
    return memory;
}

static int oscope_index(const struct oscope_workload *workload, const char *name)
{
    for (int i = 0; workload->parameters != NULL && workload->parameters[i].name != NULL; i++)
        if (strcmp(workload->parameters[i].name, name) == 0)
            return i;
    return -1;
}

static const struct oscope_level *oscope_level(const struct oscope_point *point, const char *name)
{
    int index = oscope_index(point->workload, name);
    if (index < 0)
        oscope_die("%s declares no parameter %s", point->workload->name, name);
    return &point->levels[index];
}

static __attribute__((unused)) int64_t oscope_integer(const struct oscope_point *point, const char *name)
{
    return (int64_t)oscope_level(point, name)->number;
}

static __attribute__((unused)) double oscope_seconds(const struct oscope_point *point, const char *name)
{
    return oscope_level(point, name)->number;
}

static __attribute__((unused)) const char *oscope_text(const struct oscope_point *point, const char *name)
{
    const char *text = oscope_level(point, name)->text;
    return text != NULL ? text : "";
}

static __attribute__((unused)) void oscope_metric(struct oscope_point *point, const char *name, double value)
{
    const struct oscope_metric *metrics = point->workload->metrics;
    for (int i = 0; metrics != NULL && metrics[i].name != NULL; i++) {
        if (strcmp(metrics[i].name, name) == 0) {
            point->metrics[i] = value;
            return;
        }
    }
    oscope_die("%s declares no metric %s", point->workload->name, name);
}

static __attribute__((unused)) void oscope_fail(struct oscope_point *point, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(point->failed, sizeof point->failed, format, arguments);
    va_end(arguments);
    if (point->failed[0] == '\0')
        strcpy(point->failed, "failed");
}

static __attribute__((unused)) void oscope_unavailable(struct oscope_point *point, const char *reason,
                                                       const char *remedy)
{
    snprintf(point->unavailable, sizeof point->unavailable, "%s", reason);
    snprintf(point->remedy, sizeof point->remedy, "%s", remedy != NULL ? remedy : "");
}

/* Writes a text as JSON; NULL as null. Bytes that are no UTF-8 are the caller's mistake and become '?'. */
static void oscope_json(const char *text)
{
    if (text == NULL) {
        fputs("null", oscope_out);
        return;
    }
    fputc('"', oscope_out);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            fprintf(oscope_out, "\\%c", *at);
        else if (*at < 0x20)
            fprintf(oscope_out, "\\u%04x", *at);
        else
            fputc(*at, oscope_out);
    }
    fputc('"', oscope_out);
}

static void oscope_number(double value)
{
    if (isfinite(value))
        fprintf(oscope_out, "%.17g", value);
    else
        fputs("null", oscope_out);
}

static void oscope_key(const char *name, const char *text)
{
    fprintf(oscope_out, "\"%s\":", name);
    oscope_json(text);
}

static void oscope_describe_parameter(const struct oscope_parameter *parameter)
{
    static const char *const types[] = {"integer", "bytes", "duration", "boolean", "choice", "path"};
    fputc('{', oscope_out);
    oscope_key("name", parameter->name);
    fputc(',', oscope_out);
    oscope_key("type", types[parameter->type]);
    fputs(",\"default\":", oscope_out);
    if (parameter->type == OSCOPE_CHOICE || parameter->type == OSCOPE_PATH)
        oscope_json(parameter->text != NULL ? parameter->text : "");
    else if (parameter->type == OSCOPE_BOOLEAN)
        fputs(parameter->number != 0 ? "true" : "false", oscope_out);
    else
        oscope_number(parameter->number);
    if (parameter->choices != NULL) {
        char *copy = strdup(parameter->choices), *rest = NULL;
        fputs(",\"choices\":[", oscope_out);
        for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
            if (word != copy)
                fputc(',', oscope_out);
            oscope_json(word);
        }
        fputc(']', oscope_out);
        free(copy);
    }
    fputc(',', oscope_out);
    oscope_key("doc", parameter->doc != NULL ? parameter->doc : "");
    fputc('}', oscope_out);
}

static void oscope_describe_metric(const struct oscope_metric *metric)
{
    fputs(",{", oscope_out);
    oscope_key("name", metric->name);
    fputc(',', oscope_out);
    oscope_key("unit", metric->unit);
    fputc(',', oscope_out);
    oscope_key("better", metric->better);
    fputc(',', oscope_out);
    oscope_key("doc", metric->doc != NULL ? metric->doc : "");
    fputc('}', oscope_out);
}

static void oscope_describe(const struct oscope_workload *workloads, int count)
{
    fputs("{\"schema\":\"" OSCOPE_SCHEMA "\",\"probe\":{\"version\":\"c-kit 1\",\"commit\":null},\"workloads\":[",
          oscope_out);
    for (int i = 0; i < count; i++) {
        const struct oscope_workload *workload = &workloads[i];
        fputs(i == 0 ? "{" : ",{", oscope_out);
        oscope_key("name", workload->name);
        fprintf(oscope_out, ",\"version\":%d,", workload->version != 0 ? workload->version : 1);
        oscope_key("purpose", workload->purpose != NULL ? workload->purpose : "");
        fputs(",\"timing_model\":\"time = (raw - correction) / iterations; raw is CLOCK_MONOTONIC_RAW in ns "
              "around all iterations of a repetition, called once; correction is one reading of the clock\","
              "\"parameters\":[",
              oscope_out);
        for (int n = 0; workload->parameters != NULL && workload->parameters[n].name != NULL; n++) {
            if (n != 0)
                fputc(',', oscope_out);
            oscope_describe_parameter(&workload->parameters[n]);
        }
        fputs("],\"metrics\":[{\"name\":\"time_ns\",\"unit\":\"ns\",\"better\":\"less\","
              "\"quantity\":\"time\",\"per\":\"iteration\","
              "\"note\":\"The cost of reading the clock is subtracted.\","
              "\"doc\":\"Time per iteration. The cost of reading the clock is subtracted.\"}",
              oscope_out);
        for (int n = 0; workload->metrics != NULL && workload->metrics[n].name != NULL; n++)
            oscope_describe_metric(&workload->metrics[n]);
        fprintf(oscope_out, "],\"alone\":%s}", workload->threads ? "null" : "{}");
    }
    fputs("],\"covariates\":[]}\n", oscope_out);
}

/* --- JSON of requests: objects of texts, numbers, true, false, null and one object within ----------------- */

struct oscope_reader {
    const char *at;
    const char *wrong; /* NULL as long as all is well */
};

static void oscope_skip(struct oscope_reader *reader)
{
    while (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\n' || *reader->at == '\r')
        reader->at++;
}

static bool oscope_take(struct oscope_reader *reader, char wanted)
{
    oscope_skip(reader);
    if (*reader->at != wanted)
        return false;
    reader->at++;
    return true;
}

static unsigned oscope_hex(struct oscope_reader *reader)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        char digit = *reader->at;
        if (digit >= '0' && digit <= '9')
            value = value * 16 + (unsigned)(digit - '0');
        else if ((digit | 32) >= 'a' && (digit | 32) <= 'f')
            value = value * 16 + (unsigned)((digit | 32) - 'a' + 10);
        else {
            reader->wrong = "a \\u of a text has no four digits";
            return 0;
        }
        reader->at++;
    }
    return value;
}

static char *oscope_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 63));
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

/* Returns a text, to be freed; NULL where there is none. */
static char *oscope_read_text(struct oscope_reader *reader)
{
    if (!oscope_take(reader, '"')) {
        reader->wrong = "a text was expected";
        return NULL;
    }
    char *text = oscope_allocate(strlen(reader->at) + 1), *to = text;
    while (*reader->at != '"' && *reader->at != '\0' && reader->wrong == NULL) {
        if (*reader->at != '\\') {
            *to++ = *reader->at++;
            continue;
        }
        char escaped = reader->at[1];
        if (escaped == '\0')
            break;
        reader->at += 2;
        const char *plain = strchr("b\bf\fn\nr\rt\t", escaped);
        if (escaped == 'u') {
            unsigned code = oscope_hex(reader);
            if (code >= 0xd800 && code < 0xdc00 && reader->at[0] == '\\' && reader->at[1] == 'u') {
                reader->at += 2;
                code = 0x10000 + ((code & 0x3ff) << 10) + (oscope_hex(reader) & 0x3ff);
            }
            to = oscope_utf8(to, code);
        } else {
            *to++ = plain != NULL ? plain[1] : escaped;
        }
    }
    if (reader->wrong == NULL && !oscope_take(reader, '"'))
        reader->wrong = "a text has no end";
    return text;
}

/* Reads a value that is no object or array: a text into `level->text`, all else into `level->number`. */
static bool oscope_read_value(struct oscope_reader *reader, struct oscope_level *level)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"true", 1}, {"false", 0}, {"null", NAN}};
    oscope_skip(reader);
    if (*reader->at == '"') {
        level->text = oscope_read_text(reader);
        return reader->wrong == NULL;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(reader->at, words[i].word, strlen(words[i].word)) == 0) {
            reader->at += strlen(words[i].word);
            level->number = words[i].value;
            return true;
        }
    }
    char *end;
    level->number = strtod(reader->at, &end);
    if (end == reader->at) {
        reader->wrong = "a value is neither text nor number";
        return false;
    }
    reader->at = end;
    return true;
}

struct oscope_request {
    uint64_t id;
    char *workload;
    double reps, warmup, iterations, min_time_ns, cpu, time_limit_s; /* NAN: null */
    bool inject;
    char *names[OSCOPE_MOST];
    struct oscope_level levels[OSCOPE_MOST];
    int count;
};

static void oscope_read_params(struct oscope_reader *reader, struct oscope_request *request)
{
    if (!oscope_take(reader, '{')) {
        reader->wrong = "params is no object";
        return;
    }
    while (!oscope_take(reader, '}') && reader->wrong == NULL) {
        if (request->count == OSCOPE_MOST) {
            reader->wrong = "there are too many params";
            return;
        }
        int at = request->count++;
        request->names[at] = oscope_read_text(reader);
        if (reader->wrong == NULL && !oscope_take(reader, ':'))
            reader->wrong = "a name has no value";
        if (reader->wrong == NULL)
            oscope_read_value(reader, &request->levels[at]);
        oscope_take(reader, ',');
    }
}

static void oscope_read_member(struct oscope_reader *reader, struct oscope_request *request, const char *name)
{
    struct oscope_level level = {NAN, NULL};
    struct {
        const char *name;
        double *number;
    } numbers[] = {{"reps", &request->reps}, {"warmup", &request->warmup}, {"iterations", &request->iterations},
                   {"min_time_ns", &request->min_time_ns}, {"cpu", &request->cpu},
                   {"time_limit_s", &request->time_limit_s}};
    oscope_skip(reader);
    if (strcmp(name, "params") == 0 && *reader->at == '{') {
        oscope_read_params(reader, request);
        return;
    }
    if (strcmp(name, "inject") == 0 && *reader->at == '{') {
        request->inject = true;
        reader->at = strchr(reader->at, '}');
        if (reader->at == NULL)
            reader->at = "";
        oscope_take(reader, '}');
        return;
    }
    if (strcmp(name, "id") == 0) {
        char *end;
        request->id = strtoull(reader->at, &end, 10);
        if (end == reader->at)
            reader->wrong = "id is no number";
        reader->at = end;
        return;
    }
    if (!oscope_read_value(reader, &level))
        return;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0)
            *numbers[i].number = level.number;
    if (strcmp(name, "workload") == 0)
        request->workload = level.text;
    else
        free(level.text);
}

/* Returns what is wrong with the request, or NULL. */
static const char *oscope_read_request(const char *line, struct oscope_request *request)
{
    struct oscope_reader reader = {line, NULL};
    *request = (struct oscope_request){.reps = NAN, .warmup = NAN, .iterations = NAN, .min_time_ns = NAN,
                                       .cpu = NAN, .time_limit_s = NAN};
    if (!oscope_take(&reader, '{'))
        return "the request is no object";
    while (!oscope_take(&reader, '}') && reader.wrong == NULL) {
        char *name = oscope_read_text(&reader);
        if (reader.wrong == NULL && !oscope_take(&reader, ':'))
            reader.wrong = "a name has no value";
        if (reader.wrong == NULL)
            oscope_read_member(&reader, request, name);
        oscope_take(&reader, ',');
        free(name);
    }
    if (reader.wrong == NULL && request->workload == NULL)
        return "the request names no workload";
    return reader.wrong;
}

/* --- Measuring ------------------------------------------------------------------------------------------- */

static uint64_t oscope_now(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int oscope_by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double oscope_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, oscope_by_size);
    return values[count / 2];
}

static struct oscope_clock oscope_calibrate_clock(void)
{
    static double steps[OSCOPE_READINGS];
    struct oscope_clock clock;
    uint64_t last = oscope_now(CLOCK_MONOTONIC_RAW);
    for (int i = 0; i < OSCOPE_READINGS; i++) {
        uint64_t now = oscope_now(CLOCK_MONOTONIC_RAW);
        steps[i] = (double)(now - last);
        last = now;
    }
    clock.overhead = oscope_median(steps, OSCOPE_READINGS);
    for (int i = 0; i < OSCOPE_READINGS; i++)
        steps[i] = fabs(steps[i] - clock.overhead);
    clock.deviation = oscope_median(steps, OSCOPE_READINGS);
    return clock;
}

/* Takes one repetition and returns its time in ns. */
static uint64_t oscope_repeat(struct oscope_point *point, uint64_t iterations, uint64_t token)
{
    const struct oscope_workload *workload = point->workload;
    point->failed[0] = '\0';
    for (int i = 0; i < OSCOPE_MOST; i++)
        point->metrics[i] = NAN;
    oscope_region_begin(token);
    uint64_t begun = oscope_now(CLOCK_MONOTONIC_RAW);
    workload->iterate(point, iterations);
    uint64_t ended = oscope_now(CLOCK_MONOTONIC_RAW);
    oscope_region_end(token);
    if (workload->check != NULL && point->failed[0] == '\0')
        workload->check(point);
    return ended - begun;
}

/* Returns how many iterations take `least_ns` in each of two trials, or much longer in one; at least 1. */
static uint64_t oscope_calibrate(struct oscope_point *point, double least_ns)
{
    uint64_t iterations = 1;
    while (iterations < OSCOPE_MOST_ITERATIONS) {
        double raw = (double)oscope_repeat(point, iterations, 0);
        /* One trial may be long because something interrupted it; nothing does for a hundred times as long. */
        if (raw >= least_ns && raw < 100 * least_ns && point->failed[0] == '\0') {
            double again = (double)oscope_repeat(point, iterations, 0);
            raw = again < raw ? again : raw;
        }
        if (raw >= least_ns || point->failed[0] != '\0')
            break;
        /* Never more than tenfold: the first iterations may be slower than all others. */
        double wanted = 1 + (double)iterations * least_ns / (raw > 1 ? raw : 1);
        double most = 10 * (double)iterations;
        uint64_t next = (uint64_t)(wanted < most ? wanted : most);
        iterations = next > iterations ? next : iterations + 1;
    }
    return iterations;
}

/* The counters of this thread that the probe has as well, with their meaning there. */
static const char *const oscope_covariates[OSCOPE_COVARIATES] = {
    "run_delay_ns", "voluntary_switches", "involuntary_switches", "minor_faults",
    "major_faults", "user_us",            "system_us"};

static void oscope_count(double counts[OSCOPE_COVARIATES])
{
    struct rusage usage;
    char text[128] = "";
    unsigned long long delay;
    getrusage(RUSAGE_THREAD, &usage);
    int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    counts[0] = length > 0 && sscanf(text, "%*u %llu", &delay) == 1 ? (double)delay : NAN;
    counts[1] = (double)usage.ru_nvcsw;
    counts[2] = (double)usage.ru_nivcsw;
    counts[3] = (double)usage.ru_minflt;
    counts[4] = (double)usage.ru_majflt;
    counts[5] = 1e6 * (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec;
    counts[6] = 1e6 * (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec;
}

static void oscope_take_sample(struct oscope_point *point, const struct oscope_clock *clock, uint64_t id, int rep,
                               uint64_t iterations)
{
    double before[OSCOPE_COVARIATES], after[OSCOPE_COVARIATES];
    uint64_t started = oscope_now(CLOCK_REALTIME);
    oscope_count(before);
    uint64_t raw = oscope_repeat(point, iterations, id);
    oscope_count(after);
    fprintf(oscope_out,
            "{\"event\":\"sample\",\"request\":%" PRIu64 ",\"rep\":%d,\"started_ns\":%" PRIu64 ",\"raw\":%" PRIu64
            ",\"iterations\":%" PRIu64 ",\"correction\":",
            id, rep, started, raw, iterations);
    oscope_number(clock->overhead);
    fputs(",\"metrics\":{", oscope_out);
    if (point->failed[0] == '\0') {
        const struct oscope_metric *metrics = point->workload->metrics;
        fputs("\"time_ns\":", oscope_out);
        oscope_number(((double)raw - clock->overhead) / (double)iterations);
        for (int i = 0; metrics != NULL && metrics[i].name != NULL; i++) {
            fputc(',', oscope_out);
            oscope_json(metrics[i].name);
            fputc(':', oscope_out);
            oscope_number(point->metrics[i]);
        }
    }
    fputs("},\"covariates\":{", oscope_out);
    for (int i = 0; i < OSCOPE_COVARIATES; i++) {
        fprintf(oscope_out, "%s\"%s\":", i == 0 ? "" : ",", oscope_covariates[i]);
        oscope_number(after[i] - before[i]);
    }
    fputs("},", oscope_out);
    oscope_key("failed", point->failed[0] != '\0' ? point->failed : NULL);
    fputs("}\n", oscope_out);
    fflush(oscope_out);
}

static void oscope_refuse(uint64_t id, const char *kind, const char *field, const char *remedy, const char *format,
                          ...) __attribute__((format(printf, 5, 6)));
static void oscope_refuse(uint64_t id, const char *kind, const char *field, const char *remedy, const char *format,
                          ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fprintf(oscope_out, "{\"event\":\"error\",\"request\":%" PRIu64 ",", id);
    oscope_key("kind", kind);
    fputc(',', oscope_out);
    oscope_key("field", field);
    fputc(',', oscope_out);
    oscope_key("message", message);
    fputc(',', oscope_out);
    oscope_key("remedy", remedy);
    fputs("}\n", oscope_out);
    fflush(oscope_out);
}

/* Sets the levels of the point; returns the name of a parameter that is not declared, or NULL. */
static const char *oscope_set(struct oscope_point *point, struct oscope_request *request)
{
    const struct oscope_parameter *parameters = point->workload->parameters;
    for (int i = 0; parameters != NULL && parameters[i].name != NULL; i++) {
        point->levels[i].number = parameters[i].number;
        point->levels[i].text = parameters[i].text != NULL ? strdup(parameters[i].text) : NULL;
    }
    for (int i = 0; i < request->count; i++) {
        int index = oscope_index(point->workload, request->names[i]);
        if (index < 0)
            return request->names[i];
        free(point->levels[index].text);
        point->levels[index] = request->levels[i];
        request->levels[i].text = NULL;
    }
    return NULL;
}

/* Pins the thread to the CPU asked for; NAN: the highest allowed, as the probe does; -1: none. */
static bool oscope_pin(double wanted, const cpu_set_t *allowed)
{
    cpu_set_t one;
    int cpu = isnan(wanted) ? -1 : (int)wanted;
    if (!isnan(wanted) && cpu < 0)
        return true;
    for (int i = 0; isnan(wanted) && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, allowed))
            cpu = i;
    CPU_ZERO(&one);
    if (cpu >= 0 && cpu < CPU_SETSIZE)
        CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

static void oscope_measure(struct oscope_point *point, const struct oscope_clock *clock,
                           const struct oscope_request *request)
{
    double least_ns = isnan(request->min_time_ns) ? 1e6 : request->min_time_ns;
    uint64_t iterations =
        isnan(request->iterations) ? oscope_calibrate(point, least_ns) : (uint64_t)request->iterations;
    int warmup = isnan(request->warmup) ? 1 : (int)request->warmup;
    int reps = isnan(request->reps) ? 1 : (int)request->reps, taken = 0;
    uint64_t begun = oscope_now(CLOCK_MONOTONIC);
    for (int i = 0; i < warmup && !oscope_ended; i++)
        oscope_repeat(point, iterations, 0);
    for (; taken < reps && !oscope_ended; taken++) {
        double passed_s = (double)(oscope_now(CLOCK_MONOTONIC) - begun) / 1e9;
        if (!isnan(request->time_limit_s) && passed_s > request->time_limit_s)
            break;
        oscope_take_sample(point, clock, request->id, taken, iterations);
    }
    fprintf(oscope_out,
            "{\"event\":\"done\",\"request\":%" PRIu64 ",\"samples\":%d,\"iterations\":%" PRIu64
            ",\"interrupted\":%s}\n",
            request->id, taken, iterations, oscope_ended ? "true" : "false");
    fflush(oscope_out);
}

static void oscope_answer(struct oscope_request *request, const struct oscope_workload *workload,
                          const struct oscope_clock *clock)
{
    struct oscope_point *point = oscope_allocate(sizeof *point);
    cpu_set_t allowed;
    point->workload = workload;
    const char *unknown = oscope_set(point, request);
    sched_getaffinity(0, sizeof allowed, &allowed);
    if (unknown != NULL) {
        oscope_refuse(request->id, "request", unknown, NULL, "%s has no parameter %s", workload->name, unknown);
    } else if (request->inject) {
        oscope_refuse(request->id, "request", "inject", "leave out --inject delay", "the C kit injects no delay");
    } else if (!oscope_pin(request->cpu, &allowed)) {
        oscope_refuse(request->id, "request", "cpu", NULL, "the CPU is not allowed: %s", strerror(errno));
    } else {
        if (workload->prepare != NULL)
            workload->prepare(point);
        if (point->unavailable[0] != '\0')
            oscope_refuse(request->id, "unavailable", NULL, point->remedy[0] != '\0' ? point->remedy : NULL, "%s",
                          point->unavailable);
        else
            oscope_measure(point, clock, request);
        if (workload->cleanup != NULL)
            workload->cleanup(point);
        sched_setaffinity(0, sizeof allowed, &allowed);
    }
    for (int i = 0; i < OSCOPE_MOST; i++)
        free(point->levels[i].text);
    free(point);
}

static void oscope_end(int number)
{
    (void)number;
    oscope_ended = 1;
    /* A read(2) that is yet to begin would not be interrupted. */
    if (oscope_idle)
        _exit(0);
}

static int oscope_serve(const struct oscope_workload *workloads, int count)
{
    struct sigaction action = {.sa_handler = oscope_end};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    struct oscope_clock clock = oscope_calibrate_clock();
    fprintf(oscope_out,
            "{\"event\":\"hello\",\"schema\":\"" OSCOPE_SCHEMA "\",\"probe\":{\"version\":\"c-kit 1\",\"commit\":null},"
            "\"pid\":%ld,\"environment\":{\"clock\":{\"kind\":\"monotonic_raw\",\"hz\":1e9,\"overhead\":%.17g,"
            "\"overhead_mad\":%.17g,\"why\":\"a workload program of the C kit reads it\"}}}\n",
            (long)getpid(), clock.overhead, clock.deviation);
    fflush(oscope_out);
    char *line = NULL;
    size_t room = 0;
    for (;;) {
        oscope_idle = 1;
        if (oscope_ended || getline(&line, &room, stdin) <= 0)
            break;
        oscope_idle = 0;
        struct oscope_request request;
        const struct oscope_workload *found = NULL;
        const char *wrong = oscope_read_request(line, &request);
        for (int i = 0; wrong == NULL && i < count; i++)
            if (strcmp(workloads[i].name, request.workload) == 0)
                found = &workloads[i];
        if (wrong != NULL)
            oscope_refuse(request.id, "request", NULL, NULL, "%s", wrong);
        else if (found == NULL)
            oscope_refuse(request.id, "request", "workload", NULL, "there is no workload %s", request.workload);
        else
            oscope_answer(&request, found, &clock);
        for (int i = 0; i < request.count; i++) {
            free(request.names[i]);
            free(request.levels[i].text);
        }
        free(request.workload);
    }
    free(line);
    return 0;
}

/* Answers `describe` or `run`, and returns the program's exit status. Call it from main, and return that. */
static __attribute__((unused)) int oscope_main(int argc, char **argv, const struct oscope_workload *workloads,
                                               int count)
{
    const char *verb = argc == 2 ? argv[1] : "";
    if (strcmp(verb, "describe") != 0 && strcmp(verb, "run") != 0) {
        fprintf(stderr, "This is a workload program: measure with oscope run --workload %s\n", argv[0]);
        return strcmp(verb, "--help") == 0 ? 0 : 2;
    }
    /* What a workload prints must not get among the answers. */
    int answers = dup(1);
    if (answers < 0 || dup2(2, 1) < 0 || (oscope_out = fdopen(answers, "w")) == NULL)
        oscope_die("standard output: %s", strerror(errno));
    if (strcmp(verb, "run") == 0)
        return oscope_serve(workloads, count);
    oscope_describe(workloads, count);
    return fclose(oscope_out) == 0 ? 0 : 1;
}

#endif
