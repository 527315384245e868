#include "workers.hpp"

#if !defined(_WIN32)
#include <pthread.h>
#endif

#include <algorithm>
#include <new>
#include <system_error>

namespace prunus {

namespace {
constexpr int kSpins = 4000;  // tens of microseconds: longer than the pause between two layers

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

Workers::Workers(int threads) : shares_(std::max(1, threads)) {
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
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    loop_.round++;
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
  for (ptrdiff_t worker = 0; worker < threads(); worker++) {
    shares_[worker].next.store(items * worker / threads(), std::memory_order_relaxed);
    shares_[worker].end = items * (worker + 1) / threads();
  }
  failure_ = nullptr;
  loop_.call = call;
  loop_.context = context;
  for (ptrdiff_t worker = 1; worker < threads(); worker++)
    shares_[worker].state.store(State::open, std::memory_order_release);
  wake();
  take(0);
  for (ptrdiff_t worker = 1; worker < threads(); worker++) close(shares_[worker]);
  if (failure_) std::rethrow_exception(failure_);
}

// Return once the worker has left the loop, or cannot enter it any more.
void Workers::close(Share& share) {
  State state = share.state.load(std::memory_order_acquire);
  for (int spins = 0; state != State::closed; spins++) {
    if (state == State::open && share.state.compare_exchange_strong(state, State::closed)) return;
    if (spins < kSpins) {
      pause();
    } else {
      std::this_thread::yield();
    }
    state = share.state.load(std::memory_order_acquire);
  }
}

void Workers::wake() {
  if (threads_.empty() || is_forked()) return;
  // Only this thread writes it: adding atomically would wait until other cores give up the lines that were written
  // before. A thread that falls asleep at this moment may miss the loop, which works without it, but not the next.
  loop_.round.store(loop_.round.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  if (asleep_ == 0) return;
  {  // after this, a thread that was about to sleep has seen the new round or will be notified
    std::lock_guard<std::mutex> lock(mutex_);
  }
  wake_.notify_all();
}

void Workers::take(int worker) noexcept {
  try {
    for (int turn = 0; turn < threads(); turn++) {
      Share& share = shares_[(worker + turn) % threads()];
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        const ptrdiff_t item = share.next.fetch_add(1, std::memory_order_relaxed);
        if (item < share.end) loop_.call(loop_.context, item, worker);
      }
    }
  } catch (...) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void Workers::live(int worker) {
  uint64_t seen = 0;
  while (true) {
    for (int spins = 0; spins < kSpins && loop_.round == seen; spins++) pause();
    if (loop_.round == seen) {
      std::unique_lock<std::mutex> lock(mutex_);
      asleep_++;
      wake_.wait(lock, [&] { return loop_.round != seen; });
      asleep_--;
    }
    seen = loop_.round;
    if (stop_) return;
    State open = State::open;
    if (!shares_[worker].state.compare_exchange_strong(open, State::entered)) continue;
    take(worker);
    shares_[worker].state.store(State::closed, std::memory_order_release);
  }
}

void ReleaseWorkers::operator()(Workers* workers) const {
  // In a forked child the threads do not exist, and joining them would block forever.
  if (!workers->is_forked()) delete workers;
}

}  // namespace prunus
