// Threads that share the items of a loop. If one of them throws, the caller rethrows after all have finished. Threads
// spin briefly until the next loop, then sleep. The caller never waits for a thread that has not started, so on a busy
// machine it does the work alone.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace prunus {

class Workers;

struct ReleaseWorkers {
  void operator()(Workers* workers) const;
};

class Workers {
  friend struct ReleaseWorkers;

 public:
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Call work(item, worker) for every item; the calling thread is worker 0. Each worker starts with its own share, in
  // order, and then helps the others. It gets the same part of the work in every loop.
  template <class Work>
  void for_each(ptrdiff_t items, Work&& work) {
    if (threads_.empty() || items < 2) {
      for (ptrdiff_t item = 0; item < items; item++) work(item, 0);
      return;
    }
    using Plain = std::remove_reference_t<Work>;
    run(items, [](void* context, ptrdiff_t item, int worker) { (*static_cast<Plain*>(context))(item, worker); }, &work);
  }

  // Wake sleeping threads, because there will be work soon.
  void wake();

 private:
  using Call = void (*)(void*, ptrdiff_t, int);
  void run(ptrdiff_t items, Call call, void* context);
  void take(int worker) noexcept;
  void live(int worker);
  bool is_forked() const;  // a forked child has this object, but not its threads

  // The calling thread opens a loop for every worker. A worker enters it, or the calling thread closes it again: both
  // change the same number, so only one of them can. The calling thread waits for those that have entered. What threads
  // tell each other shares as few cache lines as possible, because moving a line between cores is slow.
  enum class State { closed, open, entered };
  struct alignas(64) Loop {
    std::atomic<uint64_t> round{0};
    Call call = nullptr;
    void* context = nullptr;
  };
  struct alignas(64) Share {
    std::atomic<State> state{State::closed};
    std::atomic<ptrdiff_t> next{0};
    ptrdiff_t end = 0;
  };
  static void close(Share& share);

  Loop loop_;
  std::vector<Share> shares_;  // one per worker

  alignas(64) std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> asleep_{0};
  std::atomic<bool> stop_{false};
  std::exception_ptr failure_;  // the first exception of a loop
  unsigned forks_ = 0;          // when this object was made
  std::vector<std::thread> threads_;
};

}  // namespace prunus
