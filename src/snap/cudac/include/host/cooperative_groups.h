// The part of cooperative groups that the front end knows.
#pragma once
namespace cooperative_groups {
struct thread_block {
    SNAP_DEV void sync() const;
    SNAP_DEV unsigned int thread_rank() const;
    SNAP_DEV unsigned int size() const;
    SNAP_DEV unsigned int num_threads() const;
};
SNAP_DEV thread_block this_thread_block();
SNAP_DEV void sync(const thread_block&);
}
