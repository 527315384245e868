#include "workers.hpp"

#if !defined(_WIN32)
#include <pthread.h>
#endif

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

namespace prunus {

namespace {
constexpr int kSpins = 4000;   // tens of microseconds: longer than the pause between two layers
constexpr int kPatience = 16;  // pauses before a thread helps another, which slows the other down
constexpr int kCountBits = 16;
constexpr ptrdiff_t kMostItems = (ptrdiff_t{1} << kCountBits) - 1;  // of a loop

// A round and a count that change together. Rounds would last for decades.
constexpr uint64_t packed(uint64_t round, ptrdiff_t count) {
  return round << kCountBits | static_cast<uint64_t>(count);
}
constexpr uint64_t round_of(uint64_t packed) { return packed >> kCountBits; }
constexpr ptrdiff_t count_of(uint64_t packed) { return static_cast<ptrdiff_t>(packed & kMostItems); }

// Asking the system for the number of the process would take longer than a small step.
std::atomic<unsigned> forks{0};  // that led to this process, since the first object was made

void count_forks() {
#if !defined(_WIN32)
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forks++; });
  if (registered != 0) throw std::bad_alloc();
#endif
}

inline void pause() {
#if defined(__x86_64__) || defined(_M_X64)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
}  // namespace

Workers::Workers(int threads) : shares_(std::max(1, threads)), reports_(std::max(1, threads)) {
  count_forks();
  forks_ = forks;
  try {
    threads_.reserve(shares_.size());
    for (int worker = 1; worker < threads; worker++) threads_.emplace_back([this, worker] { live(worker); });
  } catch (const std::system_error&) {
    // the system allows no more threads; continue with the existing ones
  } catch (const std::bad_alloc&) {
    // as above
  }
}

Workers::~Workers() {
  stop_ = true;
  wake();
  {  // wake() may miss a thread that falls asleep at this moment
    std::lock_guard<std::mutex> lock(mutex_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Workers::is_forked() const { return forks.load(std::memory_order_relaxed) != forks_; }

void Workers::run(ptrdiff_t items, Call call, void* context) {
  if (is_forked()) {  // a forked child has no other threads
    for (ptrdiff_t item = 0; item < items; item++) call(context, item, 0);
    return;
  }
  for (ptrdiff_t first = 0; first < items; first += kMostItems) {
    Loop loop{call, context, first, std::min(items - first, kMostItems)};
    loop.round = announce(loop);
    const ptrdiff_t done = take(loop, 0);
    for (int spins = 0; !is_finished(loop, done); spins++) {
      if (spins < kSpins) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

uint64_t Workers::announce(const Loop& loop) {
  const uint64_t round = announced_.round.load(std::memory_order_relaxed) + 2;
  if (threads_.empty() || is_forked()) return round;
  announced_.round.store(round - 1, std::memory_order_relaxed);
  announced_.call.store(loop.call, std::memory_order_release);
  announced_.context.store(loop.context, std::memory_order_release);
  announced_.first.store(loop.first, std::memory_order_release);
  announced_.items.store(loop.items, std::memory_order_release);
  announced_.round.store(round, std::memory_order_release);
  // A thread that falls asleep at this moment may miss the loop, which works without it, but not the next.
  if (asleep_ == 0) return round;
  {  // after this, a thread that was about to sleep has seen the new round or will be notified
    std::lock_guard<std::mutex> lock(mutex_);
  }
  wake_.notify_all();
  return round;
}

bool Workers::is_announced(uint64_t after, Loop& loop) const {
  loop.round = announced_.round.load(std::memory_order_acquire);
  if (loop.round == after || loop.round % 2) return false;
  loop.call = announced_.call.load(std::memory_order_acquire);
  loop.context = announced_.context.load(std::memory_order_acquire);
  loop.first = announced_.first.load(std::memory_order_acquire);
  loop.items = announced_.items.load(std::memory_order_acquire);
  return announced_.round.load(std::memory_order_relaxed) == loop.round;  // otherwise they may be of two loops
}

// Return the number of the next item of a share of `items`; -1 if none is left, or if the loop has ended. Some items
// are `given` to a worker without being taken.
ptrdiff_t Workers::take_one(Share& share, uint64_t round, ptrdiff_t items, ptrdiff_t given) {
  uint64_t taken = share.taken.load(std::memory_order_relaxed);
  while (round_of(taken) <= round) {
    const ptrdiff_t next = round_of(taken) == round ? count_of(taken) : given;
    if (next >= items) return -1;
    if (share.taken.compare_exchange_weak(taken, packed(round, next + 1), std::memory_order_relaxed)) return next;
  }
  return -1;
}

// Return the first item of a worker's share; that of the last worker + 1 is the end.
ptrdiff_t Workers::first_of(const Loop& loop, int worker) const { return loop.items * worker / threads(); }

void Workers::perform(const Loop& loop, ptrdiff_t item, int worker) noexcept {
  try {
    loop.call(loop.context, loop.first + item, worker);
  } catch (...) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void Workers::report(const Loop& loop, int worker, ptrdiff_t done) {
  reports_[worker].done.store(packed(loop.round, done), std::memory_order_release);
}

// Whether all items are finished, `done` of them by the calling thread.
bool Workers::is_finished(const Loop& loop, ptrdiff_t done) const {
  for (ptrdiff_t other = 1; other < threads(); other++) {
    const uint64_t report = reports_[other].done.load(std::memory_order_acquire);
    if (round_of(report) == loop.round) done += count_of(report);
  }
  return done == loop.items;
}

bool Workers::has_next(const Loop& loop) const {
  return announced_.round.load(std::memory_order_relaxed) != loop.round;
}

// Take items until none is left: first those of the worker's own share, then those of others. Returns their number. The
// calling thread starts with its first item at once: taking one waits until other threads have seen the announcement.
ptrdiff_t Workers::take(const Loop& loop, int worker) noexcept {
  const ptrdiff_t given = std::min<ptrdiff_t>(1, first_of(loop, 1));
  ptrdiff_t done = 0;
  for (; worker == 0 && done < given; done++) perform(loop, done, worker);
  for (int turn = 0; turn < threads(); turn++) {
    const int owner = (worker + turn) % threads();
    const ptrdiff_t first = first_of(loop, owner), items = first_of(loop, owner + 1) - first, before = done;
    for (ptrdiff_t item; (item = take_one(shares_[owner], loop.round, items, owner ? 0 : given)) >= 0; done++)
      perform(loop, first + item, worker);
    if (worker > 0 && done > before) report(loop, worker, done);
    for (int spins = 0; turn == 0 && spins < kPatience; spins++) {
      if (worker ? has_next(loop) : is_finished(loop, done)) return done;
      pause();
    }
  }
  return done;
}

void Workers::live(int worker) {
  Loop loop;
  for (uint64_t seen = 0;; seen = loop.round) {
    const auto is_new = [&] { return is_announced(seen, loop); };
    bool started = false;
    for (int spins = 0; spins < kSpins && !(started = is_new()); spins++) pause();
    if (!started) {
      std::unique_lock<std::mutex> lock(mutex_);
      asleep_++;
      wake_.wait(lock, is_new);
      asleep_--;
    }
    if (stop_) return;
    take(loop, worker);
  }
}

void ReleaseWorkers::operator()(Workers* workers) const {
  // In a forked child the threads do not exist, and joining them would block forever.
  if (!workers->is_forked()) delete workers;
}

}  // namespace prunus
