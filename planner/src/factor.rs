//! Factors of whole numbers: primes, divisors, common divisors and multiples.

/// Returns the prime factors, ascending.
pub(crate) fn primes(mut number: usize) -> Vec<usize> {
    let mut primes = Vec::new();
    let mut candidate = 2;
    while candidate <= number / candidate {
        while number.is_multiple_of(candidate) {
            primes.push(candidate);
            number /= candidate;
        }
        candidate += 1;
    }
    if number > 1 {
        primes.push(number);
    }
    primes
}

/// Returns the divisors, ascending.
pub(crate) fn divisors(number: usize) -> Vec<usize> {
    let mut divisors = vec![1];
    let mut last = (0, 0);
    for prime in primes(number) {
        // Repeated primes multiply what the last one added.
        let start = if prime == last.0 { last.1 } else { 0 };
        last = (prime, divisors.len());
        for nth in start..divisors.len() {
            divisors.push(divisors[nth] * prime);
        }
    }
    divisors.sort_unstable();
    divisors
}

/// Returns the greatest common divisor; of 0 and a number, the number.
pub(crate) fn gcd(left: usize, right: usize) -> usize {
    if right == 0 { left } else { gcd(right, left % right) }
}

/// Returns the least common multiple of two numbers, not both 0.
pub(crate) fn lcm(left: usize, right: usize) -> usize {
    left / gcd(left, right) * right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_found() {
        assert_eq!(primes(360), [2, 2, 2, 3, 3, 5]);
        assert!(primes(1).is_empty());
        // The square of the last candidate would not fit.
        assert_eq!(primes(4294967291 * 4294967291), [4294967291; 2]);
        assert_eq!(divisors(12), [1, 2, 3, 4, 6, 12]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert_eq!(divisors(1), [1]);
    }

    #[test]
    fn divisors_and_multiples_are_the_greatest_and_the_least() {
        for left in 1..40 {
            assert_eq!(divisors(left), (1..=left).filter(|&factor| left % factor == 0).collect::<Vec<_>>());
            assert_eq!([gcd(left, 0), gcd(0, left)], [left; 2]);
            for right in 1..40 {
                let common = (1..=left).rev().find(|&factor| left % factor == 0 && right % factor == 0);
                assert_eq!(Some(gcd(left, right)), common);
                let multiple = (1..).map(|times| times * left).find(|multiple| multiple % right == 0);
                assert_eq!(Some(lcm(left, right)), multiple);
            }
        }
    }
}
