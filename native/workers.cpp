#include "workers.hpp"

#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace prunus {

namespace {
constexpr int kSpins = 4000;  // some tens of microseconds: longer than the pause between two layers

inline void pause() {
#if defined(__x86_64__) || defined(_M_X64)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
}  // namespace

Workers::Workers(int threads) : process_(getpid()) {
  try {
    for (int worker = 1; worker < threads; worker++) threads_.emplace_back([this, worker] { live(worker); });
  } catch (const std::system_error&) {
    // the system gives no more threads: those that are there do the work
  }
}

Workers::~Workers() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    round_++;
  }
  wake_.notify_all();
  for (std::thread& each : threads_) each.join();
}

void Workers::run(long items, Call call, void* context) {
  if (getpid() != process_) {  // a forked child: alone
    for (long item = 0; item < items; item++) call(context, item, 0);
    return;
  }
  items_ = items;
  batch_ = std::max(1L, items / (8L * threads()));
  call_ = call;
  context_ = context;
  failure_ = nullptr;
  next_ = 0;
  open_ = true;
  round_++;
  if (asleep_ > 0) {
    { std::lock_guard<std::mutex> lock(mutex_); }  // one that is just falling asleep has seen the new round, or hears this
    wake_.notify_all();
  }
  take(0);
  open_ = false;
  for (int spins = 0; inside_ > 0; spins++) spins < kSpins ? pause() : std::this_thread::yield();
  if (failure_) std::rethrow_exception(failure_);
}

void Workers::take(int worker) noexcept {
  try {
    for (long first = next_.fetch_add(batch_); first < items_; first = next_.fetch_add(batch_)) {
      const long last = std::min(first + batch_, items_);
      for (long item = first; item < last; item++) call_(context_, item, worker);
    }
  } catch (...) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void Workers::live(int worker) {
  long seen = 0;
  while (true) {
    for (int spins = 0; spins < kSpins && round_ == seen; spins++) pause();
    if (round_ == seen) {
      std::unique_lock<std::mutex> lock(mutex_);
      asleep_++;
      wake_.wait(lock, [&] { return round_ != seen; });
      asleep_--;
    }
    seen = round_;
    if (stop_) return;
    inside_++;
    if (open_) take(worker);
    inside_--;
  }
}

void ReleaseWorkers::operator()(Workers* workers) const {
  // The threads of a forked child's workers are not there to be stopped, and to wait for them would be forever.
  if (getpid() == workers->process_) delete workers;
}

}  // namespace prunus
