/* Lanes, marks and the map of what is alive, which the exports for viewers are made of. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "export/live_map.h"
#include "export/lanes.h"
#include "export/proto.h"

/* --- lanes ------------------------------------------------------------------------------------ */

static void test_slices_that_touch_share_a_lane(void **state)
{
    (void)state;
    struct dtri_lanes lanes = {0};
    assert_int_equal(dtri_lanes_place(&lanes, 0, 10), 0);
    assert_int_equal(dtri_lanes_place(&lanes, 10, 10), 0);
    assert_int_equal(dtri_lanes_place(&lanes, 10, 20), 0);
    assert_int_equal(dtri_lanes_place(&lanes, 19, 20), 1);
    assert_int_equal(dtri_lanes_place(&lanes, 20, 30), 0);
    assert_int_equal(lanes.n, 2);
}

static void test_no_two_slices_of_a_lane_overlap(void **state)
{
    (void)state;
    struct dtri_lanes lanes = {0};
    struct dtri_rng rng;
    int64_t ends[DTRI_LANES_MAX] = {0};
    dtri_rng_seed(&rng, 1);
    for (int64_t end = 0; end < 100000; end += (int64_t)dtri_rng_below(&rng, 3)) {
        int64_t begin = end - (int64_t)dtri_rng_below(&rng, 20);
        int lane = dtri_lanes_place(&lanes, begin < 0 ? 0 : begin, end);
        assert_in_range(lane, 0, 40);
        assert_true((begin < 0 ? 0 : begin) >= ends[lane]);
        ends[lane] = end;
    }
    assert_true(lanes.n > 1);
}

static void test_there_is_an_end_to_lanes(void **state)
{
    (void)state;
    struct dtri_lanes lanes = {0};
    for (int i = 0; i < DTRI_LANES_MAX; i++)
        assert_int_equal(dtri_lanes_place(&lanes, 0, 1 + i), i);
    assert_int_equal(dtri_lanes_place(&lanes, 0, 1), -1);
    assert_int_equal(dtri_lanes_place(&lanes, 1, 2), 0);
}

/* --- marks ------------------------------------------------------------------------------------ */

struct edges {
    char text[512];
};

static void note_edge(void *user, enum dtri_lane_group group, bool begin, int64_t ts,
                      const char *name)
{
    struct edges *edges = user;
    size_t n = strlen(edges->text);
    snprintf(edges->text + n, sizeof edges->text - n, "%c%c%d %s;", begin ? '+' : '-', "ipr"[group],
             (int)ts, name);
}

static void feed(struct dtri_marks *marks, int64_t ts, dtr_mark mark, int64_t value)
{
    dtr_event_mark event = {.mark = mark, .name = DTR_NONE, .value = value};
    dtri_marks_feed(marks, ts, &event);
}

static void test_marks_become_edges_that_match(void **state)
{
    (void)state;
    struct edges edges = {""};
    struct dtri_marks marks = {.edge = note_edge, .user = &edges, .ts = INT64_MIN};
    feed(&marks, 1, DTR_MARK_RANGE_END, DTR_NONE); /* its begin is not in the cut */
    feed(&marks, 2, DTR_MARK_ITERATION, 7);
    feed(&marks, 3, DTR_MARK_FORWARD, DTR_NONE);
    feed(&marks, 4, DTR_MARK_BACKWARD, DTR_NONE);
    feed(&marks, 3, DTR_MARK_OPTIMIZER, DTR_NONE); /* back in time */
    feed(&marks, 5, DTR_MARK_ITERATION, 8);
    dtri_marks_finish(&marks, 6);
    assert_string_equal(edges.text, "+i2 iteration 7;+p3 forward;-p4 forward;+p4 backward;"
                                    "-p4 backward;+p4 optimizer;-p5 optimizer;-i5 iteration 7;"
                                    "+i5 iteration 8;-i6 iteration 8;");
}

/* --- the map ---------------------------------------------------------------------------------- */

static void test_the_map_does_what_an_array_does(void **state)
{
    (void)state;
    enum { IDS = 300 };
    struct dtri_live_map map = {0};
    struct dtri_rng rng;
    int64_t twin[IDS] = {0}; /* 0: not there */
    size_t n = 0;
    dtri_rng_seed(&rng, 2);
    for (int64_t i = 1; i < 200000; i++) {
        int64_t at = (int64_t)dtri_rng_below(&rng, IDS), id = at * INT64_C(0x100000001);
        if (dtri_rng_below(&rng, 2)) {
            n += !twin[at];
            dtri_live_map_add(&map, id)[1] = twin[at] = i;
        } else {
            n -= twin[at] != 0;
            twin[at] = 0;
            dtri_live_map_remove(&map, id);
        }
        int64_t probe = (int64_t)dtri_rng_below(&rng, IDS);
        int64_t *values = dtri_live_map_find(&map, probe * INT64_C(0x100000001));
        assert_int_equal(values ? values[1] : 0, twin[probe]);
        assert_int_equal(map.n, n);
    }
    dtri_live_map_done(&map);
}

static bool no_memory(void *user)
{
    (void)user;
    return true;
}

static void test_failed_allocations_are_told(void **state)
{
    (void)state;
    struct dtri_live_map map = {0};
    struct dtri_proto proto = {0};
    dtri_alloc_set_fault(no_memory, NULL);
    assert_null(dtri_live_map_add(&map, 1));
    dtri_proto_end(&proto, dtri_proto_begin(&proto, 1));
    dtri_alloc_set_fault(NULL, NULL);
    assert_true(proto.failed);
    assert_null(dtri_live_map_find(&map, 1));
    dtri_live_map_done(&map);
    dtri_proto_done(&proto);
}

/* --- protobuf --------------------------------------------------------------------------------- */

static void test_the_wire_format(void **state)
{
    (void)state;
    static const uint8_t wanted[] = {
        0x08, 0x96, 0x01,                                                 /* 1: 150 */
        0x12, 0x8d, 0x80, 0x80, 0x00,                                     /* 2: 13 bytes */
        0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, /* 3: -1 */
        0x20, 0x00,                                                       /* 4: 0 */
        0x82, 0x01, 0x84, 0x80, 0x80, 0x00, 'a',  0xef, 0xbf, 0xbd,       /* 16: text */
    };
    struct dtri_proto proto = {0};
    dtri_proto_varint(&proto, 1, 150);
    size_t inner = dtri_proto_begin(&proto, 2);
    dtri_proto_varint(&proto, 3, (uint64_t)-1);
    dtri_proto_varint(&proto, 4, 0);
    dtri_proto_end(&proto, inner);
    dtri_proto_text(&proto, 16, "a\xff");
    assert_false(proto.failed);
    assert_int_equal(proto.n, sizeof wanted);
    assert_memory_equal(proto.data, wanted, sizeof wanted);
    dtri_proto_done(&proto);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_that_touch_share_a_lane),
        cmocka_unit_test(test_no_two_slices_of_a_lane_overlap),
        cmocka_unit_test(test_there_is_an_end_to_lanes),
        cmocka_unit_test(test_marks_become_edges_that_match),
        cmocka_unit_test(test_the_map_does_what_an_array_does),
        cmocka_unit_test(test_failed_allocations_are_told),
        cmocka_unit_test(test_the_wire_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
