/* The connecting side of a stream: opens it, greets, opens it again when it breaks, and knows since when it is down.
 *
 * A part of a core, not a core: the owner passes events of its peer on, sends Hello when told to, and ends the job (in
 * this version) when the link has been down for longer than its patience.
 */
#ifndef WEIR_PROTOCOL_LINK_H
#define WEIR_PROTOCOL_LINK_H

#include "protocol/core.h"
#include "protocol/machine.h"

enum weir_link_state {
    WEIR_LINK_IDLE,       /* waits for the next try */
    WEIR_LINK_CONNECTING, /* WEIR_DO_CONNECT was asked for */
    WEIR_LINK_GREETING,   /* open, our Hello is sent, theirs has not come */
    WEIR_LINK_UP,
};

#define WEIR_LINK_RETRY_NS (UINT64_C(50) * 1000000)
#define WEIR_LINK_LAST_NS (UINT64_C(3) * 1000 * 1000000)  /* how long the last attempt may take */
#define WEIR_LINK_LOOK_NS (UINT64_C(1) * 1000 * 1000000)  /* while it is down, something happens at least so often */
#define WEIR_LINK_STILL_NS (UINT64_C(4) * 1000 * 1000000) /* if not for so long, the process itself stood still */

/* Who is connected to. Texts are the owner's. */
struct weir_link_target {
    uint32_t peer;
    const char *name; /* "ps/1 at 127.0.0.1:2222" */
    enum weir_node_role role;
    uint64_t incarnation; /* 0: whoever answers first, and nobody else later */
    const char *job_hash;
    uint64_t start_patience_ns; /* how long it may be down until it has greeted once: it may have much to make ready */
    uint64_t patience_ns;       /* and after that */
};

struct weir_link {
    struct weir_link_target target;
    uint8_t state;
    bool used;            /* false until weir_link_start */
    bool greeted;         /* once */
    uint64_t retry_at_ns; /* IDLE */
    uint64_t down_since_ns;
    uint64_t last_ns;     /* of the newest event while it was down */
    uint64_t last_try_ns; /* the patience is over, and one more attempt began: 0: no */
    char error[160];      /* why it is down, "" if never tried */
    char lost[400];       /* weir_link_lost */
    struct weir_machine_counts *counts;
};

extern const struct weir_machine weir_link_machine;

/* The first try is made at once. */
void weir_link_start(struct weir_link *link, const struct weir_link_target *target, uint64_t now_ns,
                     struct weir_machine_counts *counts, struct weir_actions *actions);
/* The owner sends Hello right after. */
void weir_link_opened(struct weir_link *link);
/* Their Hello came. False if it is of another process than the one that is meant: `error` says how it differs, and the
 * owner ends the job. */
bool weir_link_greeted(struct weir_link *link, const struct weir_hello *hello);
void weir_link_closed(struct weir_link *link, uint64_t now_ns, const char *why);
/* It is there, and says that it takes us later: the time that it was down until now does not count. */
void weir_link_put_off(struct weir_link *link, uint64_t now_ns);
/* Tries again if it is time. True if the patience is over, and an attempt that began after that has failed: a process
 * that stood still may find the patience over before it has heard what came meanwhile. `error` says why it is down. */
bool weir_link_time(struct weir_link *link, uint64_t now_ns, struct weir_actions *actions);
/* Lets go of it, for good: closes its stream if there is one. The link may be started anew. */
void weir_link_stop(struct weir_link *link, const char *why, struct weir_actions *actions);
/* "lost ps/1 at 127.0.0.1:2222: connection refused", for whoever must give up. Kept in the link, until asked again. */
const char *weir_link_lost(struct weir_link *link);
uint64_t weir_link_deadline(const struct weir_link *link);
static inline bool weir_link_up(const struct weir_link *link)
{
    return link->state == WEIR_LINK_UP;
}

#endif
